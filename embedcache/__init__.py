"""Image embeddings stored on disk. This package does not depend on heads or training."""
