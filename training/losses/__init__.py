"""Losses: one file per method, and loss.py with the catalogue and their composition."""
