"""Splits: the rows for training, validation (select), calibration and test."""
