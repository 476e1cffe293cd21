"""Foundations that do not depend on speech: errors, registries, files, documents, archives, checks."""
