"""A base: State at a position as records that say what stands, and back."""
