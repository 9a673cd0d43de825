"""What a policy or a cluster may do without: each feature in its own folder."""
