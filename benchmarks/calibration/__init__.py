"""Calibration of predicted probabilities: measured on the runs of a bench, as text, tables and an HTML page."""
