"""What can happen: the vocabulary of the log."""
