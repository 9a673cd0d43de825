"""What the API server shows: lists and watches of each kind, as watch messages for the loop."""
