"""Where in the network a gang goes: the domains of HyperNodes, and how close a node is to others."""
