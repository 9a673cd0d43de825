"""What should happen: a pure function of what is true."""
