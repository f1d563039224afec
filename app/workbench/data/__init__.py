"""The tab Data: images, classes, labels to check, near-copies across the split, a map, and label corrections."""
