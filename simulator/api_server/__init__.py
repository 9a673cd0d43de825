"""The Kubernetes API of the simulated cluster: requests in, response bytes and open watches out."""
