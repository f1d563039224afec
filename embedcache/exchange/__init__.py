"""Import of vectors from, and export to, other programs."""
