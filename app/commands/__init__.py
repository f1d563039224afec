"""The commands, one file per subject: their words and options.

What they do is in `frostbench.app.actions` and is imported inside each command, so that `--help` and a mistyped option
answer at once instead of after the seconds that torch takes to import.
"""
