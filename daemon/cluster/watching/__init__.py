"""What the API server shows: lists and watches of each kind, as sightings for the loop."""
