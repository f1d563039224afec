"""Paired comparisons of runs: intervals, verdicts and tables of differences."""
