"""Bodies: what lies between the vectors and the classifier."""
