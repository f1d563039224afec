"""Generators of the pages in docs/results; `python -m frostbench.benchmarks.results` runs them."""
