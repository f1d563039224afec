"""Generators of the pages on the shipped benches: phases, full, factorial, tuned and hypotheses."""
