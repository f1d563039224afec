"""A page in a folder with a cache of its own."""

import shutil

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace


@pytest.fixture
def own(cache, tmp_path):
    """A copy of the cache, because corrections are kept beside it and pictures in it."""
    return shutil.copytree(cache, tmp_path / "own")


@pytest.fixture
def client(own, tmp_path):
    return TestClient(Starlette(routes=routes(Workspace(tmp_path, (), tmp_path / "results"), "token")))
