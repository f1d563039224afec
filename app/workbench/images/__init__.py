"""The tab Images: every image of a cache, filtered by what is known about it, and corrected together."""
