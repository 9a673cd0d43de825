"""What a cycle may do, one action a module."""
