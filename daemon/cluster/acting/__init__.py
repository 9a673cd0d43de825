"""Requests that change the cluster: bindings, evictions, statuses and Events, each safe to repeat."""
