"""Prediction: a bundle and images to classes."""
