"""Content features: what is said, as vectors that tell little of who speaks."""
