"""Measures what to label next, and how many planted label errors are found."""
