import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from colour_images import Colours, run
from PIL import Image

from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Listing
from frostbench.embedcache.sources import members
from frostbench.embedcache.sources.members import RowGroups
from frostbench.embedcache.sources.reading import read_item
from frostbench.embedcache.sources.source import kind_of, list_source
from frostbench.embedcache.storage.store import read_bad
from frostbench.embedcache.table import read_table

HF = (
    b'{"info": {"features": {"picture": {"_type": "Image"}, "kind": {"names": ["dog", "cat"], "_type": "ClassLabel"}}}}'
)


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 255 - number, 7)).save(buffer, "PNG")
    return buffer.getvalue()


def hub_file(path: Path, numbers: Sequence[int], group_rows: int = 4) -> Path:
    """A Parquet file as the Hugging Face hub has them: a struct of bytes and path, and a ClassLabel."""
    images = pa.array(
        [{"bytes": png(n), "path": f"{n}.png"} for n in numbers], pa.struct({"bytes": pa.binary(), "path": pa.string()})
    )
    table = pa.table({"picture": images, "thumb": [b"x"] * len(numbers), "kind": [n % 2 for n in numbers]})
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata({b"huggingface": HF}), path, row_group_size=group_rows)
    return path


def summary(listing: Listing) -> list[tuple[str, str, str | None]]:
    return [(item.id, item.label, item.split) for item in listing.items]


def reds(cache: Path) -> list[int]:
    return read_table(cache).columns["cls"][:, 0].astype(int).tolist()


def test_images_in_parquet_files_of_the_hub(tmp_path: Path) -> None:
    hub_file(tmp_path / "data/train-00000-of-00002.parquet", range(3))
    hub_file(tmp_path / "data/train-00001-of-00002.parquet", range(3, 5))
    hub_file(tmp_path / "data/test-00000-of-00001.parquet", [9])
    listing = list_source(tmp_path / "data")
    assert summary(listing) == [
        ("test-00000-of-00001/00000000", "cat", "test"),
        ("train-00000-of-00002/00000000", "dog", "train"),
        ("train-00000-of-00002/00000001", "cat", "train"),
        ("train-00000-of-00002/00000002", "dog", "train"),
        ("train-00001-of-00002/00000000", "cat", "train"),
        ("train-00001-of-00002/00000001", "dog", "train"),
    ]
    assert listing.class_names == ("cat", "dog")
    item = listing.items[3]
    assert (item.path, item.member, item.column) == (tmp_path / "data/train-00000-of-00002.parquet", 2, "picture")
    assert read_item(item) == png(2)
    run(listing, tmp_path / "cache")
    assert reds(tmp_path / "cache") == [9, 0, 1, 2, 3, 4]
    assert run(list_source(tmp_path / "data"), tmp_path / "cache", backbone := Colours())[-1].n_worked == 0
    assert backbone.embedded == 0


def test_hidden_files_beside_parquet_files_are_none_of_them(tmp_path: Path) -> None:
    hub_file(tmp_path / "data/train-00000-of-00001.parquet", range(2))
    (tmp_path / "data/._train-00000-of-00001.parquet").write_bytes(b"\0\5\x16\7")
    assert len(list_source(tmp_path / "data").items) == 2


def test_a_stray_parquet_file_leaves_a_folder_what_it_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"note": ["x"]}), tmp_path / "notes.parquet")
    assert kind_of(tmp_path) == "folder"
    hub_file(tmp_path / "a.parquet", [1])
    assert kind_of(tmp_path) == "Parquet with images"


def test_a_binary_column_with_texts_groups_and_times(tmp_path: Path) -> None:
    table = pa.table(
        {
            "jpeg": [png(1), png(2), png(3)],
            "label": ["b", "a", "b"],
            "group": ["g", "h", None],
            "time": ["2024-01-31", None, "2024-02-01T10:00"],
        }
    )
    pq.write_table(table, tmp_path / "some.parquet")
    listing = list_source(tmp_path / "some.parquet")
    assert [(i.id, i.label, i.group, i.split, i.time, i.member) for i in listing.items] == [
        ("some/00000000", "b", "g", None, "2024-01-31", 0),
        ("some/00000001", "a", "h", None, None, 1),
        ("some/00000002", "b", None, None, "2024-02-01T10:00:00", 2),
    ]
    assert listing.description == {
        "kind": "parquet",
        "source": str(tmp_path / "some.parquet"),
        "image_column": "jpeg",
        "label_column": "label",
        "group_regex": None,
    }


def test_which_columns_are_meant_is_told(tmp_path: Path) -> None:
    table = pa.table({"a": [png(1)], "b": [png(2)], "kind": [3], "other": ["x"]})
    pq.write_table(table, path := tmp_path / "two.parquet")
    with pytest.raises(ValueError, match=r"must qualify as the image column, but \['a', 'b'\] all do.*--image-column"):
        list_source(path)
    with pytest.raises(ValueError, match=r"as the label column, but none of \['a', 'b', 'kind', 'other'\] does"):
        list_source(path, image_column="b")
    listing = list_source(path, image_column="b", label_column="kind")
    assert (listing.items[0].label, read_item(listing.items[0])) == ("3", png(2))
    with pytest.raises(ValueError, match=r"must be one of .*got 'c'"):
        list_source(path, image_column="c")
    with pytest.raises(ValueError, match=r"must contain encoded images as bytes, but 'other' .*\['a', 'b'\]"):
        list_source(path, image_column="other")
    hub_file(tmp_path / "mixed/a.parquet", [1])
    pq.write_table(pa.table({"picture": [png(1)], "kind": ["dog"]}), tmp_path / "mixed/b.parquet")
    with pytest.raises(ValueError, match=r"label column, but none of \['picture', 'kind'\] does"):
        list_source(tmp_path / "mixed")
    with pytest.raises(ValueError, match="must have the same image and label columns and classes, but"):
        list_source(tmp_path / "mixed", label_column="kind")
    (tmp_path / "m.csv").write_text("path,label\nmixed/a.parquet,x\n")
    with pytest.raises(ValueError, match=r"image_column names a column of Parquet files .*m\.csv is of the kind 'm"):
        list_source(tmp_path / "m.csv", image_column="a")


@pytest.mark.parametrize(("kind", "told"), [([0, -1], "row 1 with -1"), ([0, None], "row 1 with None")])
def test_hidden_labels_are_refused(tmp_path: Path, kind: list[Any], told: str) -> None:
    table = pa.table({"picture": [png(1), png(2)], "kind": kind})
    pq.write_table(table.replace_schema_metadata({b"huggingface": HF}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=rf"a label \(one of 2 classes\), but 1 row of .*{told}"):
        list_source(tmp_path / "a.parquet")


def test_large_row_groups_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_file(tmp_path / "a.parquet", range(3))
    monkeypatch.setattr("frostbench.embedcache.sources.bytes_in_parquet.LARGEST_GROUP", 100)
    with pytest.raises(ValueError, match=r"at most 100 bytes, but .* row_group_size=1000"):
        list_source(tmp_path / "a.parquet")


def test_a_row_group_is_read_once_by_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    real = members.read_group
    monkeypatch.setattr(members, "read_group", lambda *where: read.append(where[1:]) or real(*where))
    listing = list_source(hub_file(tmp_path / "a.parquet", range(200), group_rows=20))
    run(listing, tmp_path / "cache", workers=8)
    assert reds(tmp_path / "cache") == list(range(200))
    assert sorted(read) == [("picture", group) for group in range(10)]


def test_few_row_groups_are_kept_and_rewritten_files_are_read_again(tmp_path: Path) -> None:
    path, groups = hub_file(tmp_path / "a.parquet", range(40), group_rows=4), RowGroups(3)
    assert [groups.value(path, "picture", row) for row in range(40)] == [png(n) for n in range(40)]
    assert len(groups._read) == 3
    hub_file(path, range(60, 90))
    assert groups.value(path, "picture", 0) == png(60)
    with pytest.raises(IndexError, match="the file has 30 rows"):
        groups.value(path, "picture", 30)


def test_rows_that_cannot_be_read_are_quarantined(tmp_path: Path) -> None:
    path = hub_file(tmp_path / "a.parquet", range(3))
    listing = list_source(path)
    table = pq.read_table(path)
    images = pa.array([{"bytes": None, "path": "0.png"}, {"bytes": b"<html>", "path": None}], table["picture"].type)
    pq.write_table(pa.table({"picture": images, "kind": [0, 1]}), path)
    run(listing, tmp_path / "cache")
    told = [row["reason"] for row in read_bad(tmp_path / "cache", 0)]
    assert (told[0], told[2]) == ("row 0 holds no image", "row 2 cannot be read: the file has 2 rows")
    assert "is not an image" in told[1]
    path.unlink()
    run(listing, tmp_path / "other")
    assert {row["reason"] for row in read_bad(tmp_path / "other", 0)} == {"the file does not exist"}


def saved(folder: Path, numbers: Sequence[int]) -> Any:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(decode=False), "kind": datasets.ClassLabel(names=["dog", "cat", "emu"])}
    )
    folder.mkdir(exist_ok=True)
    for n in numbers:
        (folder / f"{n}.png").write_bytes(png(n))
    images = [{"bytes": png(n), "path": str(folder / f"{n}.png")} for n in numbers]
    return datasets.Dataset.from_dict({"image": images, "kind": [n % 2 for n in numbers]}, features=features)


def test_datasets_saved_to_disk(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    whole = saved(tmp_path / "png", range(5))
    whole.save_to_disk(tmp_path / "one")
    listing = list_source(tmp_path / "one")
    assert summary(listing)[:2] == [
        ("data-00000-of-00001/00000000", "dog", None),
        ("data-00000-of-00001/00000001", "cat", None),
    ]
    assert listing.class_names == ("cat", "dog", "emu")
    run(listing, tmp_path / "cache1")
    assert reds(tmp_path / "cache1") == list(range(5))

    parts = {"train": whole.select([0, 3, 4]), "validation": whole.shuffle(seed=1).select([0])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "several", num_shards={"train": 2, "validation": 1})
    listing = list_source(tmp_path / "several")
    assert [(item.id.split("-")[0], item.label, item.split) for item in listing.items[:3]] == [
        ("train/data", "dog", "train"),
        ("train/data", "cat", "train"),
        ("train/data", "dog", "train"),
    ]
    assert listing.items[3].split == "validation"
    list(extract(listing, Colours(), tmp_path / "cache2"))
    assert reds(tmp_path / "cache2")[:3] == [0, 3, 4]
    with pytest.raises(ValueError, match=r"must be one of \['image', 'kind'\], got 'label'"):
        list_source(tmp_path / "several", label_column="label")


def test_columns_of_a_saved_dataset_are_groups_splits_and_times(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    whole = saved(tmp_path / "png", range(3)).add_column("group", ["g", None, "h"])
    whole = whole.add_column("time", ["2024-01-31", "", "20240201"]).add_column("split", ["test", None, None])
    datasets.DatasetDict({"train": whole}).save_to_disk(tmp_path / "one")
    listing = list_source(tmp_path / "one")
    assert [(item.group, item.split, item.time) for item in listing.items] == [
        ("g", "test", "2024-01-31"),
        (None, "train", None),
        ("h", "train", "2024-02-01"),
    ]
    assert listing.warnings[0] == "1 of 3 images has no group and counts as independent."


def test_the_column_of_labels_is_no_group(tmp_path: Path) -> None:
    pq.write_table(pa.table({"jpeg": [png(1)], "group": ["a"]}), path := tmp_path / "some.parquet")
    [item] = list_source(path, label_column="group").items
    assert (item.label, item.group) == ("a", None)


def test_a_saved_dataset_may_name_files(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    saved(tmp_path / "png", range(3)).save_to_disk(tmp_path / "one")
    [file] = (tmp_path / "one").glob("*.arrow")
    # Older versions of the library left files where they were.
    table = members.open_stream(file)
    images = [{"bytes": png(7), "path": None}] + [
        {"bytes": None, "path": str(tmp_path / f"png/{n}.png")} for n in (1, 2)
    ]
    with pa.ipc.new_stream(tmp_path / "new", table.schema) as stream:
        stream.write_table(pa.table({"image": images, "kind": [0, 1, 2]}, schema=table.schema))
    (tmp_path / "new").replace(file)
    listing = list_source(tmp_path / "one")
    assert [item.path for item in listing.items] == [file, tmp_path / "png/1.png", tmp_path / "png/2.png"]
    assert [item.member for item in listing.items] == [0, None, None]
    assert [read_item(item) for item in listing.items] == [png(7), png(1), png(2)]


def test_a_missing_package_is_named_with_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": []}')
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match=r"which is not installed.*pip install 'frostbench\[datasets\]'"):
        list_source(tmp_path)


def ufg(root: Path, train: str, test: str, names: Sequence[str]) -> None:
    for name in names:
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "images" / name).write_bytes(png(len(name)))
    (root / "anno").mkdir()
    (root / "anno/train.txt").write_text(train)
    (root / "anno/test.txt").write_text(test)


def test_the_ultra_fine_grained_benchmark(tmp_path: Path) -> None:
    ufg(tmp_path / "cotton", "a 1.jpg 1\nb.jpg 10\n", "c.jpg 2\n\n", ["a 1.jpg", "b.jpg", "c.jpg"])
    listing = list_source(tmp_path / "cotton")
    assert summary(listing) == [("a 1.jpg", "1", "train"), ("b.jpg", "10", "train"), ("c.jpg", "2", "test")]
    assert listing.class_names == ("1", "2", "10")
    assert listing.items[0].path == tmp_path / "cotton/images/a 1.jpg"
    for stage in ("R1", "R3"):
        ufg(tmp_path / "age" / stage, "x/a.jpg 1\n", "b.jpg 1\n", ["x/a.jpg", "b.jpg"])
    assert summary(list_source(tmp_path / "age")) == [
        ("R1/b.jpg", "1", "test"),
        ("R1/x/a.jpg", "1", "train"),
        ("R3/b.jpg", "1", "test"),
        ("R3/x/a.jpg", "1", "train"),
    ]
    assert all(item.path.exists() for item in list_source(tmp_path / "age").items)
    (tmp_path / "cotton/anno/test.txt").write_text("c.jpg two\n")
    with pytest.raises(ValueError, match=r"line 1 of .*test\.txt is 'c\.jpg two'"):
        list_source(tmp_path / "cotton")
    (tmp_path / "cotton/anno/test.txt").write_text("b.jpg 10\n")
    with pytest.raises(ValueError, match=r"1 id occurs more than once, for example 'b\.jpg'"):
        list_source(tmp_path / "cotton")
    (tmp_path / "cotton/anno/test.txt").write_text("c.jpg 10\n")
    (tmp_path / "cotton/images").rename(tmp_path / "cotton/pictures")
    with pytest.raises(ValueError, match=r"none of the first 3 does, .*Unpack the images beside the lists"):
        list_source(tmp_path / "cotton")


@pytest.mark.parametrize(("train", "below"), [("train.csv", ""), ("train_val.csv", "images/")])
def test_the_benchmark_as_csv(tmp_path: Path, train: str, below: str) -> None:
    (tmp_path / "images/R1").mkdir(parents=True)
    for name in ("R1/a.jpg", "b.jpg"):
        (tmp_path / "images" / name).write_bytes(png(1))
    (tmp_path / train).write_text(f"class_id,dir\n007,{below}R1/a.jpg\n")
    assert kind_of(tmp_path) == "folder"
    (tmp_path / "test.csv").write_text(f"dir,class_id\n{below}b.jpg,12\n")
    listing = list_source(tmp_path)
    assert summary(listing) == [(f"{below}R1/a.jpg", "007", "train"), (f"{below}b.jpg", "12", "test")]
    assert [item.path for item in listing.items] == [tmp_path / "images/R1/a.jpg", tmp_path / "images/b.jpg"]
    # A folder of class folders beside other lists stays one.
    (tmp_path / "test.csv").write_text("id,label\n1,2\n")
    assert kind_of(tmp_path) == "folder"
