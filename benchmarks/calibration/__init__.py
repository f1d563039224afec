"""How well probabilities are calibrated: measured on the runs of a bench, as text, tables and a page."""
