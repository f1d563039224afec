"""A cache on a read-only disk: reading and training work, and commands that must write explain the error."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from read_only import make_read_only

from frostbench.benchmarks.api import fit
from frostbench.embedcache.checking.doctor import diagnose, treat
from frostbench.embedcache.index import load_or_make_map
from frostbench.embedcache.splits.making import UNKEPT, SplitSpec, load_or_make_split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.locking import is_locked
from frostbench.embedcache.table import read_table

NUMBERS = [errno.EROFS, errno.EACCES, errno.EPERM]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def fresh(small_cache, tmp_path):
    """A copy of the cache without splits and maps."""
    shutil.copytree(small_cache, tmp_path / "cache", ignore=shutil.ignore_patterns("splits", "maps"))
    return tmp_path / "cache"


@pytest.mark.parametrize("number", NUMBERS)
def test_commands_that_only_read_work(frostbench, fresh, tmp_path, monkeypatch, number):
    before = everything(fresh)
    make_read_only(monkeypatch, fresh, number)
    train = ("train", fresh, "--preset", "plain", "--set", "head.classifier.kind=logreg", "--store", tmp_path / "store")
    result = frostbench(*train, "--out", tmp_path / "head")
    assert result.status == 0, result.err
    assert UNKEPT not in result.err + result.out
    [kept] = (tmp_path / "store/splits").iterdir()
    at = kept.stat().st_mtime_ns
    again = frostbench(*train)
    assert "0 runs trained, 1 found" in again.out
    assert kept.stat().st_mtime_ns == at
    for words, message in (
        (("inspect", "balance", fresh), UNKEPT),
        (("inspect", "leaks", fresh), UNKEPT),
        (("inspect", "map", fresh), "not stored, because the cache is read-only"),
        (("predict", tmp_path / "head", fresh), "\tdigit 1\t"),
        (("cache", "verify", fresh), "ok"),
        (("cache", "doctor", fresh), "no problems found"),
    ):
        result = frostbench(*words)
        assert result.status == 0, (words, result)
        assert message in result.out + result.err, (words, result)
    assert fit(str(fresh), split={"test": 0}, preset="plain").metrics
    assert everything(fresh) == before


@pytest.mark.parametrize("number", NUMBERS)
def test_commands_that_must_write_fail_with_an_explanation(frostbench, fresh, photos, monkeypatch, number):
    before = everything(fresh)
    make_read_only(monkeypatch, fresh, number)
    for words in (
        ("embed", photos, "--cache", fresh, "--size", "64"),
        ("cache", "doctor", fresh, "--repair"),
        ("views", "make", fresh, "flips", "--policy", "flip"),
    ):
        result = frostbench(*words)
        assert result.status == 2, (words, result)
        assert any(sign in result.err for sign in ("cannot be", "not writable")), (words, result.err)
        assert os.strerror(number) in result.err, (words, result.err)
        assert result.err.count("[Errno") == 0
    assert everything(fresh) == before


def test_the_same_split_is_kept_in_the_store_and_in_the_cache(fresh, tmp_path, monkeypatch):
    table = read_table(fresh, stored=True)
    with monkeypatch.context() as patch:
        make_read_only(patch, fresh, errno.EROFS)
        unkept = load_or_make_split(fresh, table, SplitSpec())
        assert unkept.report.warnings[-1] == UNKEPT
        kept = load_or_make_split(fresh, table, SplitSpec(), tmp_path / "store")
        assert UNKEPT not in kept.report.warnings
        assert not is_locked(fresh)
        assert diagnose(fresh) == []
        assert len(load_or_make_map(fresh, table)) == len(table.ids)
        with pytest.raises(CacheError, match="Changing a cache needs write permission"):
            treat(fresh)
    written = load_or_make_split(fresh, table, SplitSpec(), tmp_path / "other")
    assert unkept.hash == kept.hash == written.hash
    assert not (tmp_path / "other").exists()


def test_a_full_disk_is_no_read_only_one(fresh, tmp_path, monkeypatch):
    table = read_table(fresh, stored=True)
    make_read_only(monkeypatch, fresh, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left on device"):
        load_or_make_split(fresh, table, SplitSpec(), tmp_path / "store")
    with pytest.raises(OSError, match="No space left on device"):
        load_or_make_map(fresh, table)
