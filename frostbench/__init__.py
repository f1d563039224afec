"""Frostbench: get the best classifier out of frozen image embeddings."""
