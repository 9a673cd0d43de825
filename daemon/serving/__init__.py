"""HTTP for probes and metrics."""
