"""Building what is published from a copy of the checkout, so that nothing is left behind in it."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IGNORED = (".*", "build", "dist", "docs", "site", "tests", "__pycache__", "*.egg-info")


def build_wheel(folder, *options):
    """Build a wheel below a folder, with the tools that are installed; options are those of `python -m build`."""
    tree, out = folder / "tree", folder / "dist"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(*IGNORED))
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(out), "."]
    made = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = out.glob("*.whl")
    return wheel
