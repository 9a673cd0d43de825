"""Who may be evicted in favour of whom, and in which order."""
