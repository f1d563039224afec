"""Random changes of vectors: noise, FroFA and mixup."""
