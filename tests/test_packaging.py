import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP_LEVEL = ("app", "benchmarks", "configs", "embedcache", "heads", "outputs", "training")


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_list_of_packages_is_complete():
    """Every folder with code or data counts: setuptools takes a folder of data for a package too."""
    folders = {
        path.parent
        for top in TOP_LEVEL
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {str(folder.relative_to(ROOT)).replace("/", ".") for folder in folders}
    assert set(project()["tool"]["setuptools"]["packages"]) == there


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_no_other_installed_distribution_owns_our_names(name):
    owners = set(packages_distributions().get(name, []))
    assert owners <= {"frostbench"}


def test_data_files_are_packaged():
    data = project()["tool"]["setuptools"]["package-data"]
    packaged = {
        p
        for name, patterns in data.items()
        for pattern in patterns
        for p in (ROOT / name.replace(".", "/")).glob(pattern)
    }
    there = {
        p
        for top in TOP_LEVEL
        for p in (ROOT / top).rglob("*")
        if p.is_file() and p.suffix not in (".py", ".pyc") and "__pycache__" not in p.parts
    }
    assert there - packaged == set()


def test_dependencies_have_lower_bounds_and_no_exact_pins():
    metadata = project()["project"]
    wanted = metadata["dependencies"] + [d for extra in metadata["optional-dependencies"].values() for d in extra]
    assert [d for d in wanted if ">=" not in d or "==" in d] == []
