"""Command-line arguments and help texts, one file per subject.

Each command imports its implementation from `frostbench.app.actions` when it runs, so that `--help` and usage errors
do not wait for torch to import.
"""
