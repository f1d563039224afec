"""Cross-validation: choices on held-out folds, then one fit to all rows."""
