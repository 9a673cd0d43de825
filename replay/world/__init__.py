"""The simulated cluster: scenarios and traces in virtual time."""
