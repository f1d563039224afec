"""docs/results/defaults.md: what a head is that was trained without choosing anything, before and now."""
