"""The shore of the cluster: what observes it and acts on it."""
