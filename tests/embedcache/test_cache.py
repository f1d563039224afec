import os
from dataclasses import replace

import numpy as np
import pytest

import frostbench
from frostbench.embedcache.cache import Cache
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import read_table


def test_a_cache_says_what_it_holds(make_cache):
    path = make_cache(bad=(1,), groups=["g", None, "g", None, "h", None, "h"])
    cache, table = Cache(str(path)), read_table(path)
    assert len(cache) == 6
    assert cache.path == path
    assert os.fspath(cache) == str(path)
    assert cache.class_names == ("ant", "bee", "cow")
    assert cache.recipes == table.recipes
    for name in ("ids", "labels", "groups"):
        assert np.array_equal(getattr(cache, name), getattr(table, name))
    assert repr(cache) == f"<Cache {str(path)!r}: 6 rows, 3 classes, cls [4], patch_mean [2]>"


def test_vectors_are_read_by_column(make_cache):
    cache = Cache(make_cache())
    assert np.array_equal(cache.vectors("cls"), read_table(cache.path).columns["cls"])
    assert set(cache.table().columns) == {"cls", "patch_mean"}
    assert set(cache.table(["cls"]).columns) == {"cls"}
    with pytest.raises(CacheError, match=r"must be named .*, but .* has \['cls', 'patch_mean'\]"):
        cache.vectors()
    with pytest.raises(CacheError, match=r"among those of the cache, .*, got \['clss'\]"):
        cache.vectors("clss")
    assert Cache(make_cache(dims={"only": 3})).vectors().shape == (7, 3)


def test_of_tokens_alone_a_column_is_named(make_cache):
    cache = Cache(make_cache(dims={"tokens": 3}))
    cache._rows = replace(cache._rows, recipes={}, tokens=cache._rows.recipes)
    with pytest.raises(CacheError, match=r"must be named .* has \['tokens'\]\. Call vectors\(NAME\)"):
        cache.vectors()


def test_what_is_no_finished_cache_is_refused(make_cache, tmp_path):
    with pytest.raises(CacheError, match="does not exist"):
        Cache(tmp_path / "nothing")
    with pytest.raises(CacheError, match="A complete cache contains"):
        Cache(make_cache(finish=False))


def test_a_cache_is_fitted_like_its_folder(make_cache):
    cache = Cache(make_cache(labels=["ant", "bee"] * 20, dims={"cls": 4}))
    one, other = (frostbench.fit(x, spec={"head.classifier.kind": "ncm"}) for x in (cache, cache.path))
    assert one.record.key == other.record.key
    assert np.array_equal(one.predict_proba(cache.vectors()), other.predict_proba(cache.vectors()))
