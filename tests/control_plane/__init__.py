"""A real Kubernetes control plane for tests: etcd, API server, controllers, scheduler."""
