"""Worlds, clients, tiny models and marks that several tests share."""
