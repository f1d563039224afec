"""Generator of docs/results/defaults.md: heads trained at their defaults, before and now."""
