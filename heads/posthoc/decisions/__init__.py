"""Decisions: what is added to log-probabilities before the largest is taken; probabilities stay as they are."""
