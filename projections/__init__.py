"""What is true: pure folds over the log."""
