"""Inference: predict the classes of images or cached vectors with a bundle."""
