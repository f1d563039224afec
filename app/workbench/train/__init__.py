"""The tab Train: options of two sides, what they would train, and all jobs of the store."""
