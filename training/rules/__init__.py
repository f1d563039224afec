"""Rules about combinations of options, one file per subject; training.conflicts joins them."""
