"""One step a file, never changed once released."""
