"""Rules about combinations of options, one file per subject; `frostbench.training.checks.conflicts` joins them."""
