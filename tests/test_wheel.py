"""The published wheel, used in the folder of a person who has modules called as ours once were."""

import os
import subprocess
import sys
import sysconfig
from importlib.metadata import PathDistribution
from pathlib import Path

import numpy as np
import pytest
from wheels import build_wheel

pytestmark = pytest.mark.slow
THEIRS = ("app.py", "training.py", "heads/__init__.py", "configs/__init__.py", "embedcache.py", "benchmarks.py")
CELL = """
import sys
from pathlib import Path
import numpy as np
import frostbench
from frostbench.embedcache.exchange.external import import_vectors

x, labels = np.load("x.npy"), np.repeat(["ant", "bee"], 20)
head = frostbench.fit(x, labels, {"head.classifier.kind": "logreg"})
import_vectors(Path("x.npy"), Path("rows.csv"), Path("cache"), "random")
print(head.predict_proba(x).shape, len(frostbench.Cache("cache")))
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "frostbench"]
assert len(ours) > 50, len(ours)
print({module.__file__.partition("frostbench")[0] for module in ours})
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a new environment with the wheel, built from the sdist, and the packages of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    run(sys.executable, "-m", "venv", "--without-pip", "env", at=folder)
    python = folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python, "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", wheel, at=folder)
    # A line of a .pth file adds a folder without its own .pth files, so without an editable Frostbench.
    (site_packages(python) / "theirs.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def site_packages(python):
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", at=python.parent).strip())


@pytest.fixture
def folder(tmp_path):
    """A working folder with modules that must not be imported, and a few vectors."""
    for name in THEIRS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"raise ImportError('{name} is not Frostbench')\n")
    x = np.random.default_rng(0).normal(0, 1, (40, 4)) + 4 * np.repeat(np.eye(2, 4), 20, axis=0)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    rows = "".join(f"{i},{'ant' if i < 20 else 'bee'}\n" for i in range(40))
    (tmp_path / "rows.csv").write_text(f"id,label\n{rows}")
    return tmp_path


def run(*words, at):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    made = subprocess.run(list(map(str, words)), cwd=at, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout


def test_it_owns_one_name(python):
    (info,) = site_packages(python).glob("frostbench-*.dist-info")
    files = PathDistribution(info).files or []
    assert {file.parts[0] for file in files if file.parts[0] != ".."} == {"frostbench", info.name}


def test_commands_and_a_notebook_use_it_among_modules_of_other_people(python, folder):
    command = next(python.parent.glob("frostbench*"))
    assert run(command, "--version", at=folder).startswith("frostbench ")
    told = run(python, "-c", CELL, at=folder).splitlines()
    assert told == ["(40, 2) 40", str({f"{site_packages(python)}{os.sep}"})]
    options = ("--set", "head.classifier.kind=logreg", "--no-compare-simple", "--no-refit")
    # -m puts the folder first on the path.
    assert "macro F1" in run(python, "-m", "frostbench", "train", "cache", *options, at=folder)
