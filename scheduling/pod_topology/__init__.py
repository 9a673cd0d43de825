"""What only some pods ask, and only they pay for: who stands where, and which images are there."""
