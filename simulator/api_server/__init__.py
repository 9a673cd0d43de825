"""The API of the simulated cluster, as its clients see it: requests in, bytes out."""
