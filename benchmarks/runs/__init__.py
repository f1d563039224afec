"""Runs: training what a bench lacks, and the store of their records."""
