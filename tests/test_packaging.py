import tomllib
import zipfile
from pathlib import Path

from wheels import build_wheel

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "benchmarks", "configs", "embedcache", "heads", "training")
"""Folders of the repository, each linked into `frostbench/`."""
LEFT_OUT = ("reference", "results", "speed")
"""Of benchmarks: what measures Frostbench itself."""


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files():
    """Files that the wheel should have, below `frostbench/`."""
    return {
        path.relative_to(ROOT)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.parts[len(ROOT.parts) + 1] not in LEFT_OUT
    }


def test_every_folder_is_linked_into_the_package():
    links = {path.name: path.readlink().as_posix() for path in (ROOT / "frostbench").iterdir() if path.is_symlink()}
    assert links == {name: f"../{name}" for name in FOLDERS}


def test_the_wheel_has_every_file_and_owns_one_name(tmp_path):
    names = {Path(name) for name in zipfile.ZipFile(build_wheel(tmp_path, "--wheel")).namelist()}
    found = {path for path in names if not path.parts[0].endswith(".dist-info")}
    assert found == {Path("frostbench") / path for path in files()} | {
        Path("frostbench/__init__.py"),
        Path("frostbench/__main__.py"),
        Path("frostbench/py.typed"),
    }


def test_dependencies_have_lower_bounds_and_no_exact_pins():
    metadata = project()["project"]
    wanted = metadata["dependencies"] + [d for extra in metadata["optional-dependencies"].values() for d in extra]
    assert [d for d in wanted if ">=" not in d or "==" in d] == []
