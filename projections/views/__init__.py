"""What people ask: state as rows, batch by batch."""
