"""Preset `auto`: a configuration chosen for a table by cross-validation on its training rows."""
