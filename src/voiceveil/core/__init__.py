"""Foundations without a word about speech: errors, registries, files, documents, archives, checks."""
