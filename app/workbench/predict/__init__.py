"""The tab Predict: new images with one or more heads, and what they are unlike."""
