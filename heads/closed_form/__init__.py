"""Classifiers solved in closed form."""
