"""Effects: the only folder that touches the world."""
