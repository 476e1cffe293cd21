"""Neural networks: torch modules of the published systems, and the recipes that train them."""
