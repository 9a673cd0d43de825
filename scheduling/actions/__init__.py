"""The actions of a scheduling cycle, one module for each."""
