"""What muster measures of itself: one table of names, and the figures behind it."""
