"""Attackers: who wants to know who speaks, and how far they get."""
