"""Volumes of pods: whether the claims of a pod can be used, and on which nodes."""
