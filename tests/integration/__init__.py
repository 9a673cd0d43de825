"""Against real servers."""
