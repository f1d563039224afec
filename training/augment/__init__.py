"""Random changes of vectors: noise, gains, FroFA and mixing."""
