"""Classifiers trained by gradient steps."""
