"""Pods per second on a real API server: muster, kube-scheduler and a bare client, in one run."""
