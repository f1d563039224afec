"""`python -m frostbench`, the same as the command `frostbench`."""

from frostbench.app.cli import main

main()
