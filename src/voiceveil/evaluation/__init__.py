"""The VoicePrivacy Challenges: their protocols as data, their results, their rankings."""
