"""What muster does to the cluster: bindings, evictions, statuses and Events, each safe to repeat."""
