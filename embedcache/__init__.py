"""Images to vectors on disk; knows nothing of heads or training."""
