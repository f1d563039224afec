"""The pages of docs/results that one command regenerates; `python -m benchmarks.results` lists them."""
