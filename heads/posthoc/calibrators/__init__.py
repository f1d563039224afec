"""Calibrators: from logits to calibrated log-probabilities, one file per method; each is fitted to calibration rows."""
