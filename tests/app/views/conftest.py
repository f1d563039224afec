"""Pairs over few and over many classes."""

import pytest
from hostile_pairs import made


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """A pair over six classes, two of them named by an attacker."""
    return made(tmp_path_factory.mktemp("few"), 6)


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    return made(tmp_path_factory.mktemp("many"), 50)
