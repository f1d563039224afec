"""Classifiers trained with gradient steps."""
