"""Arrays to a trained head."""
