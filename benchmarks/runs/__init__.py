"""Runs: train the missing runs of a bench, store their records, and pick, refit and export rows."""
