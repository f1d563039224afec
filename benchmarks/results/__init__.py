"""The pages of docs/results that one command regenerates; `python -m frostbench.benchmarks.results` lists them."""
