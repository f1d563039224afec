"""What `import frostbench` gives, and to whom: people, type checkers and a quick start."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import frostbench
from frostbench.benchmarks import api
from frostbench.embedcache.cache import Cache
from frostbench.heads.ensemble import Ensemble

ROOT = Path(__file__).parents[1]
SOLVED = {"head.classifier.kind": "logreg"}


def run(*words, **options):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def arrays():
    """Three classes far apart: x [90, 5] and labels [90]."""
    labels = np.repeat(["ash", "elm", "fir"], [40, 30, 20])
    generator = np.random.default_rng(0)
    return 6 * np.eye(3, 5)[np.unique(labels, return_inverse=True)[1]] + generator.normal(0, 1, (90, 5)), labels


def test_the_facade_has_these_names():
    assert frostbench.__all__ == ["Cache", "__version__", "compare", "fit", "load"]
    assert set(frostbench.__all__) <= set(dir(frostbench))
    assert (frostbench.fit, frostbench.compare, frostbench.load) == (api.fit, api.compare, api.load)
    assert frostbench.Cache is Cache
    with pytest.raises(AttributeError, match="module 'frostbench' has no attribute 'train'"):
        _ = frostbench.train


def test_importing_it_imports_nothing_heavy():
    code = (
        "import sys, frostbench; frostbench.__version__, dir(frostbench);"
        "print([name for name in ('torch', 'pandas', 'numpy', 'gradio') if name in sys.modules])"
    )
    assert run("-c", code, check=True).stdout.strip() == "[]"


def test_the_version_is_told_by_the_command_and_the_module():
    assert run("-m", "frostbench", "--version", check=True).stdout == f"frostbench {frostbench.__version__}\n"


@pytest.mark.slow
def test_type_checkers_see_the_signatures(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import frostbench\n"
        "reveal_type(frostbench.fit)\n"
        "reveal_type(frostbench.Cache('plants').class_names)\n"
        "reveal_type(frostbench.__version__)\n"
        "frostbench.fit([[0.0]], presett='plain')\n"
        "frostbench.train\n"
    )
    said = run("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script), cwd=ROOT).stdout.splitlines()
    wanted = inspect.signature(api.fit).parameters
    told = {int(line.split(":")[1]): line for line in said if " error: " in line or "Revealed" in line}
    assert all(f"{name}: " in told[2] for name in wanted if name not in ("x", "labels", "spec"))
    assert told[2].endswith('-> frostbench.benchmarks.fitted.Fitted"')
    assert 'Revealed type is "tuple[str, ...]"' in told[3].replace("builtins.", "")
    assert 'Revealed type is "str"' in told[4].replace("builtins.", "")
    assert 'Unexpected keyword argument "presett"' in told[5]
    assert 'Module has no attribute "train"' in told[6]


def test_a_bundle_is_loaded_by_its_folder(arrays, tmp_path):
    x, labels = arrays
    fitted = frostbench.fit(x, labels, SOLVED)
    fitted.save(str(tmp_path / "bundle"))
    head = frostbench.load(str(tmp_path / "bundle"))
    assert head.class_names == ("ash", "elm", "fir")
    assert frostbench.load(tmp_path / "bundle").columns == fitted.head.columns
    width = len(fitted.head.head.preprocess.mean)
    classes = len(fitted.class_names)
    assert repr(head).startswith("<TrainedHead: ")
    assert repr(head).endswith(f" on identity, reads {head.columns[0]} [{width}], {classes} classes>")
    pair = Ensemble((head, head), facts={"long": "x" * 1000})
    assert repr(pair) == f"Ensemble(members=({head!r}, {head!r}))"
