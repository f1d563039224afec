import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from frostbench.embedcache.checking.verify import verify_cache
from frostbench.embedcache.exchange.external import BY_POSITION, import_vectors
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import read_table

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
LABELS = ["bee", "ant", "10", "2"]


def write_npy(path: Path) -> Path:
    np.save(path / "x.npy", X.astype(np.float64))
    return path / "x.npy"


def write_tensor(path: Path) -> Path:
    torch.save(torch.from_numpy(X.copy()), path / "x.pt")
    return path / "x.pt"


def write_list(path: Path) -> Path:
    pq.write_table(
        pa.table({"features": pa.array(X.tolist(), pa.list_(pa.float32())), "n": range(4)}), path / "x.parquet"
    )
    return path / "x.parquet"


def write_fixed_list(path: Path) -> Path:
    table = pa.table({"features": pa.array(X.tolist(), pa.list_(pa.float64(), 3))})
    pq.write_table(table, path / "x.parquet")
    return path / "x.parquet"


def write_binary(path: Path) -> Path:
    field = pa.field("features", pa.binary(12), metadata={"dim": "3", "dtype": "float32"})
    rows = pa.array([row.tobytes() for row in X], pa.binary(12))
    pq.write_table(pa.table([rows], schema=pa.schema([field])), path / "x.parquet")
    return path / "x.parquet"


def manifest(folder: Path, suffix: str = "csv", **columns: Any) -> Path:
    frame = pd.DataFrame({"label": LABELS} | columns)
    target = folder / f"manifest.{suffix}"
    frame.to_csv(target, index=False) if suffix == "csv" else frame.to_parquet(target)
    return target


@pytest.mark.parametrize("write", [write_npy, write_tensor, write_list, write_fixed_list, write_binary])
def test_every_kind_of_file_gives_the_same_table(tmp_path: Path, write: Any) -> None:
    report = import_vectors(write(tmp_path), manifest(tmp_path), tmp_path / "c", "my model")
    table = read_table(tmp_path / "c", verify=True)
    stored = X.astype(np.float16)
    np.testing.assert_array_equal(table.columns["features"], stored)
    assert table.class_names == ("2", "10", "ant", "bee")
    assert table.labels.tolist() == [3, 2, 1, 0]
    assert table.ids.tolist() == [f"row-{r:08d}" for r in range(4)]
    assert table.content.tolist() == [hashlib.sha256(row.tobytes()).hexdigest() for row in stored]
    assert (table.recipes["features"].provider, table.recipes["features"].model) == ("external", "my model")
    assert (report.rows, report.dims) == (4, {"features": 3})
    worst = max(np.linalg.norm(a - b) / np.linalg.norm(a) for a, b in zip(X, stored.astype(np.float32), strict=True))
    assert report.rounding["features"] == pytest.approx(worst, rel=1e-4)
    assert {"weights_sha256", "size", "pooling"} <= set(report.unknown)
    assert "NO GROUPS" in report.warnings[0]


@pytest.mark.parametrize("kind", [">f4", np.longdouble, np.int16, np.uint8, bool])
def test_number_types_that_are_not_stored_are_converted(tmp_path: Path, kind: Any) -> None:
    x = np.abs(8 * X).astype(kind)
    np.save(tmp_path / "x.npy", x)
    import_vectors(tmp_path / "x.npy", manifest(tmp_path), tmp_path / "c", "m")
    np.testing.assert_array_equal(read_table(tmp_path / "c").columns["features"], x.astype(np.float16))


def test_a_dict_of_tensors_gives_several_columns(tmp_path: Path) -> None:
    x = torch.from_numpy(X.copy())
    torch.save({"cls": x.bfloat16(), "mean": x.half()}, tmp_path / "x.pt")
    import_vectors(tmp_path / "x.pt", manifest(tmp_path), tmp_path / "c", "m")
    table = read_table(tmp_path / "c")
    np.testing.assert_array_equal(table.columns["mean"], X.astype(np.float16))
    np.testing.assert_array_equal(table.columns["cls"], x.bfloat16().float().numpy().astype(np.float16))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_manifest_gives_ids_paths_groups_and_splits(tmp_path: Path, suffix: str) -> None:
    columns = {"id": ["a", "b", "c", "d"], "path": ["/i/1", "/i/2", "/i/3", "/i/4"], "group": ["g", "g", "h", "h"]}
    split = ["train", "train", "test", "test"]
    path = manifest(tmp_path, suffix, split=split, **columns)
    report = import_vectors(write_npy(tmp_path), path, tmp_path / "c", "m")
    table = read_table(tmp_path / "c")
    assert table.ids.tolist() == ["a", "b", "c", "d"]
    assert table.groups.tolist() == ["g", "g", "h", "h"]
    assert table.split is not None
    assert table.split.tolist() == split
    assert report.warnings == (BY_POSITION,)


def test_ids_come_from_paths_and_given_ids_stay_as_they_are(tmp_path: Path) -> None:
    paths = ["a/1.png", "a\\2.png", "b/1.png", "b/2.png"]
    import_vectors(write_npy(tmp_path), manifest(tmp_path, path=paths), tmp_path / "c", "m")
    assert read_table(tmp_path / "c").ids.tolist() == ["a/1.png", "a\\\\2.png", "b/1.png", "b/2.png"]
    import_vectors(write_npy(tmp_path), manifest(tmp_path, id=paths), tmp_path / "d", "m")
    assert read_table(tmp_path / "d").ids.tolist() == paths


def test_large_imports_are_cut_into_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frostbench.embedcache.exchange.writing.SHARD_ROWS", 3)
    import_vectors(write_npy(tmp_path), manifest(tmp_path), tmp_path / "c", "m")
    assert len(list((tmp_path / "c" / "shards").glob("*.parquet"))) == 2
    np.testing.assert_array_equal(read_table(tmp_path / "c").columns["features"], X.astype(np.float16))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_what_does_not_fit_float32_is_refused_by_row(tmp_path: Path, value: float) -> None:
    x = X.astype(np.float64)
    x[2, 1] = value
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(
        CacheError, match=r"'features' .* within ±3.4.* 1 of 4 .*'row-00000002', which holds (nan|inf|1e)"
    ):
        import_vectors(tmp_path / "x.npy", manifest(tmp_path), tmp_path / "c", "m")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("factor", [1e-30, 1e-8, 1e-6, 1e-4, 1.0, 1e2, 1e4, 1e6, 1e30])
def test_no_scale_loses_more_than_float16_does_in_its_range(tmp_path: Path, factor: float) -> None:
    np.save(tmp_path / "x.npy", X * np.float64(factor))
    report = import_vectors(tmp_path / "x.npy", manifest(tmp_path), tmp_path / "c", "m")
    found = read_table(tmp_path / "c", verify=True).columns["features"].astype(np.float64) / factor
    lengths = np.linalg.norm(X, axis=1)
    assert (np.linalg.norm(found - X, axis=1) / lengths).max() == pytest.approx(report.rounding["features"], rel=1e-3)
    assert report.rounding["features"] <= 2**-11
    if factor != 1e-4:
        assert report.storage["features"] == ("float16" if factor in (1.0, 1e2, 1e4) else "float32")
    assert not any("Scale the vectors" in warning for warning in report.warnings)


def test_what_float32_loses_is_warned_of(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X * np.float64(1e-44))
    report = import_vectors(tmp_path / "x.npy", manifest(tmp_path), tmp_path / "c", "m")
    assert report.rounding["features"] > 1e-3
    assert "Scale the vectors before the import" in report.warnings[1]


def test_columns_are_stored_in_a_type_each_and_read_from_memory_and_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frostbench.embedcache.exchange.writing.SHARD_ROWS", 3)
    offset = 1000 + X * np.float32(0.01)
    torch.save({"plain": torch.from_numpy(X), "offset": torch.from_numpy(offset)}, tmp_path / "x.pt")
    report = import_vectors(tmp_path / "x.pt", manifest(tmp_path), tmp_path / "c", "m")
    assert report.storage == {"plain": "float16", "offset": "float32"}
    table, stored = read_table(tmp_path / "c"), read_table(tmp_path / "c", stored=True).stored
    for name, wanted in (("plain", X.astype(np.float16)), ("offset", offset)):
        np.testing.assert_array_equal(table.columns[name], wanted)
        np.testing.assert_array_equal(stored[name].read(1, 4), wanted[1:])
        np.testing.assert_array_equal(stored[name].only(np.array([1, 0, 0, 1], bool)).read(0, 2), wanted[[0, 3]])
        assert table.columns[name].dtype == stored[name].read(0, 1).dtype == wanted.dtype
    assert all(check.ok for check in verify_cache(tmp_path / "c").checks)
    shard = pq.read_table(tmp_path / "c" / "shards" / "part-00000.parquet")
    held = shard.schema.field("offset").metadata
    decoded = np.frombuffer(b"".join(shard["offset"].to_pylist()), np.dtype(held[b"dtype"].decode()).newbyteorder("<"))
    np.testing.assert_array_equal(decoded.reshape(-1, int(held[b"dim"])), offset[:3])
    again = import_vectors(tmp_path / "c" / "shards" / "part-00000.parquet", three(tmp_path), tmp_path / "d", "m")
    assert again.storage == report.storage


def three(folder: Path) -> Path:
    pd.DataFrame({"label": LABELS[:3]}).to_csv(folder / "three.csv", index=False)
    return folder / "three.csv"


def test_counts_must_agree(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X[:3])
    with pytest.raises(CacheError, match=r"x.npy has 3 and manifest.csv has 4"):
        import_vectors(tmp_path / "x.npy", manifest(tmp_path), tmp_path / "c", "m")
    assert not (tmp_path / "c").exists()


def save_array(path: Path, x: np.ndarray) -> Path:
    np.save(path / "w.npy", x, allow_pickle=True)
    return path / "w.npy"


def save_torch(path: Path, held: Any) -> Path:
    torch.save(held, path / "w.pt")
    return path / "w.pt"


def save_lists(path: Path, rows: list[Any]) -> Path:
    pq.write_table(pa.table({"v": pa.array(rows, pa.list_(pa.float32()))}), path / "w.parquet")
    return path / "w.parquet"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p: save_array(p, np.zeros((4, 3, 2), np.float32)),
            r"'features' of w.npy\) must be a matrix \[N, D\].*Pool tokens",
        ),
        (lambda p: save_array(p, np.zeros((4, 3), np.complex64)), "real numbers.*complex64"),
        (lambda p: save_array(p, np.array([{}] * 4, object)), "one numeric array"),
        (lambda p: save_torch(p, {"a": [1, 2]}), "a tensor or a dict of tensors"),
        (lambda p: save_torch(p, Path("x")), "without executing pickled code"),
        (lambda p: save_lists(p, [[1.0], [1.0, 2.0], [1.0], [1.0]]), r"the same length.*\[1, 2\]"),
        (lambda p: save_lists(p, [[1.0], None, [1.0], [1.0]]), r"column 'v' has none in 1 cell\. Drop"),
        (lambda p: save_lists(p, [[1.0], [None], [1.0], [1.0]]), r"1 null\. Repair"),
        (lambda p: p / "none.npy", "Check the path"),
        (lambda p: p / "vectors.csv", "must be in a .npy, .pt or .parquet"),
    ],
)
def test_other_vectors_are_refused(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(CacheError, match=message):
        import_vectors(make(tmp_path), manifest(tmp_path), tmp_path / "c", "m")


def test_manifests_and_folders_are_checked(tmp_path: Path) -> None:
    vectors = write_npy(tmp_path)
    (tmp_path / "m.csv").write_text("name\na\nb\nc\nd\n")
    (tmp_path / "m.txt").write_text("label\n")
    with pytest.raises(CacheError, match=r"needs a label .*\['name'\]"):
        import_vectors(vectors, tmp_path / "m.csv", tmp_path / "c", "m")
    with pytest.raises(ValueError, match=r"'label' must hold text or whole numbers, but row 1 .* holds 2\.5"):
        import_vectors(vectors, manifest(tmp_path, "parquet", label=[1.0, 2.5, 1.0, 2.0]), tmp_path / "c", "m")
    with pytest.raises(CacheError, match=r"in every row.* row 2 \(counted from 0 after the header\) has no label"):
        import_vectors(vectors, manifest(tmp_path, "parquet", label=[1, 2, None, 2]), tmp_path / "c", "m")
    with pytest.raises(CacheError, match="in every row"):
        import_vectors(vectors, manifest(tmp_path, id=["a", "", "b", "c"]), tmp_path / "c", "m")
    with pytest.raises(ValueError, match=r"must be a .csv or .parquet file"):
        import_vectors(vectors, tmp_path / "m.txt", tmp_path / "c", "m")
    with pytest.raises(CacheError, match="Ids of items must be unique, but 'a' occurs twice"):
        import_vectors(vectors, manifest(tmp_path, id=["a", "a", "b", "c"]), tmp_path / "c", "m")
    with pytest.raises(CacheError, match="needs a new or empty folder"):
        import_vectors(vectors, manifest(tmp_path), tmp_path, "m")
    with pytest.raises(CacheError, match="is not a folder"):
        import_vectors(vectors, manifest(tmp_path), vectors, "m")


def keyed(folder: Path, /, **columns: Any) -> Path:
    pq.write_table(pa.table({"features": pa.array(X.tolist(), pa.list_(pa.float32()))} | columns), folder / "x.parquet")
    return folder / "x.parquet"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"id": ["d", "b", "a", "c"]}, {"id": ["a", "b", "c", "d"]}),
        ({"id": [40, 20, 10, 30]}, {"id": [10, 20, 30, 40]}),
        ({"path": ["d", "b", "a", "c"], "id": [0, 1, 2, 3]}, {"path": ["a", "b", "c", "d"]}),
        ({"id": ["d", "b", "a", "c"], "path": ["same"] * 4}, {"id": ["a", "b", "c", "d"], "path": ["p"] * 4}),
    ],
)
def test_rows_are_joined_by_a_shared_column(tmp_path: Path, theirs: Any, ours: Any) -> None:
    report = import_vectors(keyed(tmp_path, **theirs), manifest(tmp_path, **ours), tmp_path / "c", "m")
    table = read_table(tmp_path / "c")
    assert table.ids.tolist() == [str(one) for one in next(iter(ours.values()))]
    np.testing.assert_array_equal(table.columns["features"], X[[2, 1, 3, 0]].astype(np.float16))
    assert [table.class_names[i] for i in table.labels] == LABELS
    assert BY_POSITION not in report.warnings


def test_without_a_shared_column_rows_are_joined_by_position_and_this_is_told(tmp_path: Path) -> None:
    target = manifest(tmp_path, id=["a", "b", "c", "d"])
    report = import_vectors(keyed(tmp_path, path=["d", "c", "b", "a"]), target, tmp_path / "c", "m")
    np.testing.assert_array_equal(read_table(tmp_path / "c").columns["features"], X.astype(np.float16))
    assert report.warnings[-1] == BY_POSITION
    assert "matched by position" in BY_POSITION


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (
            ["a", "b", "c", "e"],
            r"1 row of manifest.csv has no vector \('d'\) and 1 vector of x.parquet has no row \('e",
        ),
        (["a", "b", "c", "c"], "filled and unique, but 1 value of x.parquet is not, for example 'c'"),
        (["a", "b", "c", None], "1 value of x.parquet is not, for example None"),
    ],
)
def test_ids_that_differ_or_repeat_are_refused(tmp_path: Path, theirs: Any, message: str) -> None:
    with pytest.raises(CacheError, match=message):
        import_vectors(keyed(tmp_path, id=theirs), manifest(tmp_path, id=list("abcd")), tmp_path / "c", "m")
    assert not (tmp_path / "c").exists()


def test_a_failed_import_leaves_nothing_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, target = write_npy(tmp_path), tmp_path / "deep" / "c"
    for wrong in ({"id": list("aabc")}, {"label": ["a", "b", "c", ""]}):
        with pytest.raises(CacheError):
            import_vectors(vectors, manifest(tmp_path, **wrong), target, "m")
    with pytest.raises(CacheError, match=r"other than .*got \['sha256'\]"):
        import_vectors(vectors, manifest(tmp_path), target, "m", "sha256")
    assert not target.exists()

    def no_space(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("frostbench.embedcache.storage.store.write_manifest", no_space)
        with pytest.raises(OSError, match="No space"):
            import_vectors(vectors, manifest(tmp_path), target, "m")
    assert list(target.parent.iterdir()) == []
    target.mkdir()
    import_vectors(vectors, manifest(tmp_path), target, "m")
    assert list(target.parent.iterdir()) == [target]
    assert read_table(target, verify=True).ids.shape == (4,)


def test_odd_headers_and_class_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("label,Group\na,g\na,g\nb,h\nb,h\n")
    with pytest.raises(ValueError, match=r"Column names must be exact, but .*'Group' for 'group'. Rename it"):
        import_vectors(write_npy(tmp_path), tmp_path / "m.csv", tmp_path / "c", "m")
    named = manifest(tmp_path, label=["Cat", "cat", "dog", "dog"])
    assert "'Cat' and 'cat'" in import_vectors(tmp_path / "x.npy", named, tmp_path / "c", "m").warnings[1]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_times_are_imported_and_checked(tmp_path: Path, suffix: str) -> None:
    when = ["2024-01-31", "20240201T102030", None, "2024-02-01"]
    import_vectors(write_npy(tmp_path), manifest(tmp_path, suffix, time=when), tmp_path / "c", "m")
    assert read_table(tmp_path / "c").times.tolist() == ["2024-01-31", "2024-02-01T10:20:30", "", "2024-02-01"]
    with pytest.raises(ValueError, match=r"must be ISO 8601.* row 0 of .* has '31\.1\.2024'"):
        import_vectors(write_npy(tmp_path), manifest(tmp_path, suffix, time=["31.1.2024"] * 4), tmp_path / "d", "m")
