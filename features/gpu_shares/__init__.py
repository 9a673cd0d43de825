"""Shares of GPUs: requests, what is free, fragmentation."""
