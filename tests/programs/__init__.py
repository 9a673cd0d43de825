"""Programs of others that judge what is deployed: helm and promtool, each built from its pinned Go module."""
