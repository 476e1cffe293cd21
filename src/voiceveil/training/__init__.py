"""Training of networks: data, losses, loops and recipes. Nothing but the command line imports it."""
