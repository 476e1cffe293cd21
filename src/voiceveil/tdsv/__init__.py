"""Text-dependent speaker verification: the TdSV Challenge 2024, both tasks, and what anonymization does to passphrases."""
