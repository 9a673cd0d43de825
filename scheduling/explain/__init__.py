"""Explanations: why a pod group waits, a pod got its node, a node is excluded. Recomputed from State; nothing here decides."""
