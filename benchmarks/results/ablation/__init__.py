"""Generators of the pages on the shipped benches: phases, full, factorial and hypotheses."""
