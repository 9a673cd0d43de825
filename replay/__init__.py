"""What happened and what would have: replay, explanations, reports and narration of a log."""
