"""What is deployed: roles, units, manifests and the image."""
