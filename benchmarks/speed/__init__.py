"""Speed, ours against a peer in the same process: `python -m benchmarks.speed NAME`."""
