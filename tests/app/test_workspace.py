"""The caches, stores and files that the page may access."""

import os
from pathlib import Path

import pytest

from frostbench.app import workspace
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import SettingsError


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


def test_only_finished_caches_below_the_root_are_listed(below):
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
def test_a_cache_that_is_not_listed_is_refused(below, name):
    made(below / "b")
    with pytest.raises(SettingsError, match=r"The cache must be one of \['b'\], got"):
        Workspace(Path(), (), Path("results")).cache(name)


def test_a_search_result_is_reused_for_a_few_seconds(below, monkeypatch):
    made(below / "b")
    now = [100.0]
    monkeypatch.setattr(workspace.time, "monotonic", lambda: now[0])
    here = Workspace(Path(), (), Path("results"))
    assert here.cache_names() == ["b"]
    made(below / "c")
    assert here.cache_names() == ["b"]
    now[0] += workspace.SECONDS
    assert here.cache_names() == ["b", "c"]


@pytest.fixture
def files(below, tmp_path_factory):
    """A workspace, and a folder outside of it with a secret."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "secret.csv").write_text("id,role\na,secret\n")
    (elsewhere / "loss.py").write_text("")
    (below / "sub").mkdir()
    (below / "sub" / "roles.csv").write_text("id,role\na,train\n")
    return Workspace(Path(), (), Path("results"), plugins=(elsewhere / "loss.py",)), below, elsewhere


def test_files_below_the_root_and_named_plugins_may_be_read(files):
    here, below, elsewhere = files
    wanted = (below / "sub" / "roles.csv").resolve()
    (below / "link.csv").symlink_to(wanted)
    for name in ("sub/roles.csv", str(below / "sub" / "roles.csv"), "sub/../sub/roles.csv", "link.csv"):
        assert here.file(name) == wanted
    assert here.file(str(elsewhere / "loss.py")) == (elsewhere / "loss.py").resolve()


def test_a_file_outside_the_root_is_refused(files):
    here, below, elsewhere = files
    (below / "link.csv").symlink_to(elsewhere / "secret.csv")
    (below / "folder").symlink_to(elsewhere)
    ways = (
        str(elsewhere / "secret.csv"),
        f"../{elsewhere.name}/secret.csv",
        "link.csv",
        "folder/secret.csv",
        "/dev/zero",
        "/etc/passwd",
        f"/proc/self/cwd/../{elsewhere.name}/secret.csv",
        str(elsewhere / "there is none"),
    )
    for way in ways:
        with pytest.raises(SettingsError, match=r"The page only reads files below .*, and .* is not"):
            here.file(way)


def test_a_path_that_is_not_a_file_is_refused(files):
    here, below, _ = files
    os.mkfifo(below / "pipe")
    (below / "circle").symlink_to("circle")
    for name in ("", "sub", "pipe", "none", "http://127.0.0.1/a.csv", "a" * 5000, "circle"):
        with pytest.raises(SettingsError, match="is not a readable file"):
            here.file(name)
    with pytest.raises(SettingsError, match="is not a readable file"):
        here.file("a\0b")


def test_a_file_that_is_too_large_for_a_form_is_refused(files):
    here, below, _ = files
    for name, size in (("fits.npz", workspace.MOST_BYTES), ("large.npz", 300 * workspace.MIB)):
        with (below / name).open("wb") as file:
            file.truncate(size)
    assert here.file("fits.npz").name == "fits.npz"
    with pytest.raises(SettingsError, match=r"at most 100 MiB, but 'large.npz' has 300 MiB. Use the command line"):
        here.file("large.npz")


def test_an_unreadable_folder_is_not_a_store(below, monkeypatch):
    (below / "theirs" / "runs").mkdir(parents=True)
    scan = os.scandir

    def refused(path):
        if Path(path).name == "runs":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(workspace.os, "scandir", refused)
    assert Workspace(Path(), (), Path("results")).other_stores() == []
