"""The command, as its users know it."""
