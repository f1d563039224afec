"""docs/add_a_loss.md, followed literally in a copy of the source tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "add_a_loss.md").read_text(encoding="utf-8")
SHOWN = """
from pathlib import Path

from typer.testing import CliRunner

from frostbench.app.cli import app
from frostbench.app.sides import ROWS
from frostbench.app.workbench.train.groups import title_of
from frostbench.app.workbench.train.options import options_tree
from frostbench.app.workspace import Workspace
from catalogue import CASES

for words in (["options"], ["options", "--markdown"]):
    found = CliRunner().invoke(app, words)
    print(*[line for line in found.stdout.splitlines() if "train.loss.logit_norm.weight" in line])
(row,) = [row for row in ROWS if row.path == "train.loss.logit_norm.weight"]
shown = options_tree(Workspace(Path("none"), (), Path("none")))["rows"]
print(title_of(row), row.tier, row.key in [one["key"] for one in shown])
print(*[name for name in CASES if "logit_norm" in name])
"""
pytestmark = pytest.mark.slow


def blocks():
    """Return the code blocks of the page by the file named in their first line."""
    found = re.findall(r"```python\n# ([\w/.]+)[^\n]*\n(.*?)```", DOC, re.DOTALL)
    return dict(found)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Copy the source tree and apply both steps."""
    root = tmp_path_factory.mktemp("tree")
    for folder in ("app", "benchmarks", "configs", "embedcache", "heads", "training", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "frostbench", root / "frostbench", symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", root)
    code = blocks()
    (root / "training/losses/logit_norm.py").write_text(code["training/losses/logit_norm.py"], encoding="utf-8")
    catalogue = root / "training/losses/loss.py"
    text = catalogue.read_text(encoding="utf-8")
    line = re.search(r"`(from frostbench\.training\.losses\.logit_norm import \w+)`", DOC)[1]
    text = text.replace("\n    @property\n", f"\n{code['training/losses/loss.py']}\n    @property\n", 1)
    text = text.replace("\nfrom frostbench.training.", f"\n{line}\nfrom frostbench.training.", 1)
    catalogue.write_text(text, encoding="utf-8")
    return root


def run(tree, *words):
    paths = os.pathsep.join(map(str, (tree, tree / "tests" / "shared")))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    done = subprocess.run([sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_options_their_table_the_form_and_the_catalogue_of_cases_have_it(tree):
    options, table, form, cases = run(tree, "-c", SHOWN).splitlines()
    assert "train.loss.logit_norm.weight" in options
    assert "| Logit norm weight | `train.loss.logit_norm.weight` | 0 | >= 0, <= 100 |" in table
    assert "| Coefficient of the penalty; 0 disables it." in table
    assert form == "Confidence experimental True"
    assert cases == "train.loss.logit_norm"


def test_it_passes_the_tests_of_the_whole_catalogue(tree):
    """Conformance, a stack against a loop, and logs pass without a test that names the loss."""
    files = ("tests/test_every_loss.py", "tests/training/engine/test_stack.py")
    output = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", "logit_norm")
    assert re.search(r"\b[5-9] passed|\b\d\d passed", output), output
