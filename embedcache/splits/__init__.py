"""Which rows train, select, calibrate and test."""
