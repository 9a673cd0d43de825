"""The policy file, as it is parsed."""
