"""Specs of a stage of training and of its optimiser."""
