"""A cluster in virtual time: nodes, kubelets, controllers, scenarios, traces, an API server."""
