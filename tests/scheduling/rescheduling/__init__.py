"""What is done after faults: options, arguments, and which pod replaces which."""
