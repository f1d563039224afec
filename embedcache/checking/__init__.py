"""Whether a cache is whole and true, and its repair."""
