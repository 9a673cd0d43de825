"""Network topology: HyperNode domains for gangs, and the proximity of nodes."""
