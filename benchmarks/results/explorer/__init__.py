"""Generates docs/results/explorer.html: one page over all result tables."""
