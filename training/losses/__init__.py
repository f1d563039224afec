"""Losses, one file per method; loss.py is the catalogue and the composition."""
