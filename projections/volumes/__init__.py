"""Volumes of pods: what claims, volumes, storage classes and drivers say, and which pods use which claims."""
