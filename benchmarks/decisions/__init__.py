"""Decisions chosen after training from stored logits: temperature, prior, cut-offs, costs and abstention."""
