"""Training data: vectors and labels in memory or streamed from disk, and the rows a run trains on."""
