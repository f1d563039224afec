"""Calibrators from logits to log-probabilities, fitted to calibration rows, with one file per method."""
