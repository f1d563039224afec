"""Speed compared with a peer in the same process: `python -m frostbench.benchmarks.speed NAME`."""
