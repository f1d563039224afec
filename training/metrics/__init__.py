"""Metrics of classification, calibration, selective prediction and out-of-distribution detection."""
