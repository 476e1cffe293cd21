"""Text-dependent speaker verification: the TdSV Challenge 2024, and what anonymization does to passphrases."""
