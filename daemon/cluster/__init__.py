"""The Kubernetes adapter: watches the cluster and carries out decisions."""
