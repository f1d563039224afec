"""Comparison: paired intervals, verdicts and tables of differences."""
