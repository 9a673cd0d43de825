"""The daemon on a Kubernetes API over HTTP, in every kind of trouble; and judged by the server afterwards."""
