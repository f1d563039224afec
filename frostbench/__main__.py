"""Runs the command `frostbench` as `python -m frostbench`."""

from frostbench.app.cli import main

main()
