"""Anonymization by resynthesis: a recording is taken apart, and put together with another speaker (B1, relatives)."""
