"""Rules about combinations of options, one file per subject; frostbench.training.conflicts joins them."""
