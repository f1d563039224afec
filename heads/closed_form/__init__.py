"""Classifiers computed in closed form."""
