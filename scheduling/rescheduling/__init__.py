"""What is done after faults: which pods are deleted, and where those that replace them go."""
