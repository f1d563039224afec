"""Bodies: the layers between the vectors and the classifier."""
