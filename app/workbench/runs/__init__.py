"""The tab Runs: every setting of every store, and what makes a difference."""
