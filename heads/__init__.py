"""What maps a vector to logits; knows nothing of the other packages."""
