"""The simulated cluster behind HTTP."""
