"""What the page may touch."""

from pathlib import Path

import pytest

from app import workspace
from app.workspace import Workspace
from benchmarks.settings import SettingsError


def made(folder):
    folder.mkdir(parents=True)
    for name in ("cache.json", "manifest.json"):
        (folder / name).write_text("{}")


@pytest.fixture
def below(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workspace._below.cache_clear()
    yield tmp_path
    workspace._below.cache_clear()


def test_finished_below_the_root_are_offered_and_nothing_else(below):
    made(below / "b")
    made(below / "a" / "deep" / "er")
    made(below / "b" / "inside another")
    made(below / ".hidden" / "c")
    made(below / "1" / "2" / "3" / "4" / "too deep")
    (below / "unfinished").mkdir()
    (below / "unfinished" / "cache.json").write_text("{}")
    here = Workspace(Path(), (Path("named"),), Path("results"))
    assert here.cache_names() == ["named", "a/deep/er", "b"]
    assert here.cache("a/deep/er") == Path("a/deep/er")


@pytest.mark.parametrize("name", ["../b", "/etc", "c", "", None])
def test_a_cache_that_is_not_offered_is_refused(below, name):
    made(below / "b")
    with pytest.raises(SettingsError, match=r"a cache is one of \['b'\], however"):
        Workspace(Path(), (), Path("results")).cache(name)


def test_what_was_found_is_believed_for_a_few_seconds(below, monkeypatch):
    made(below / "b")
    now = [100.0]
    monkeypatch.setattr(workspace.time, "monotonic", lambda: now[0])
    here = Workspace(Path(), (), Path("results"))
    assert here.cache_names() == ["b"]
    made(below / "c")
    assert here.cache_names() == ["b"]
    now[0] += workspace.SECONDS
    assert here.cache_names() == ["b", "c"]
