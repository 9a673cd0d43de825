"""What did happen, and what would have: the log run again."""
