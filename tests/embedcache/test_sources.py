import os
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from colour_images import run
from PIL import Image

from frostbench.embedcache.items import NO_GROUPS, escape_name
from frostbench.embedcache.sources.source import Listing, list_folder, list_manifest, list_source
from frostbench.embedcache.splits.making import make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import read_table


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def ids(listing: Listing) -> list[str]:
    return [item.id for item in listing.items]


def test_the_first_folder_level_is_the_class_and_items_are_sorted_by_id(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.png", "b/10.png", "a/deep/er/1.JPG", "a/0.webp")
    listing = list_folder(tmp_path)
    assert ids(listing) == ["a/0.webp", "a/deep/er/1.JPG", "b/10.png", "b/2.png"]
    assert [item.label for item in listing.items] == ["a", "a", "b", "b"]
    assert listing.class_names == ("a", "b")
    assert all(item.path == tmp_path / item.id for item in listing.items)


def test_the_order_does_not_depend_on_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, *(f"{c}/{i}.png" for c in "cab" for i in range(9)))
    expected = list_folder(tmp_path)
    real = os.scandir

    class Backwards:
        def __init__(self, path: Path) -> None:
            with real(path) as scan:
                self.entries = sorted(scan, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(os, "scandir", Backwards)
    assert list_folder(tmp_path) == expected


def test_integer_classes_are_sorted_as_numbers_with_a_warning(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{c}/1.png" for c in (0, 1, 10, 2)))
    listing = list_folder(tmp_path)
    assert listing.class_names == ("0", "1", "2", "10")
    assert any("class names are integers" in warning for warning in listing.warnings)
    assert not any("integers" in w for w in list_folder(touch(tmp_path / "other", "x1/1.png")).warnings)


def test_hidden_things_are_skipped_and_reported(tmp_path: Path) -> None:
    touch(tmp_path, ".ipynb_checkpoints/1.png", "a/._3.png", "a/.git/2.png", "a/3.png", ".DS_Store")
    listing = list_folder(tmp_path)
    assert (ids(listing), listing.class_names) == (["a/3.png"], ("a",))
    told = "4 hidden files or folders were skipped: .DS_Store, .ipynb_checkpoints, a/._3.png …."
    assert told in listing.warnings


def test_an_empty_class_stays_in_the_list(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png", "c/readme.txt")
    (tmp_path / "b").mkdir()
    listing = list_folder(tmp_path)
    assert listing.class_names == ("a", "b", "c")
    assert "2 class folders have no image; they stay in the class list: b, c." in listing.warnings


def test_files_without_an_image_suffix_are_counted_by_suffix(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png", "a/notes.txt", "a/Thumbs.db", "a/more.TXT", "a/README", "stray.png")
    warnings = list_folder(tmp_path).warnings
    assert "3 files without an image extension were skipped: 1 × (none), 2 × .txt." in warnings
    assert "1 system file or folder was skipped: a/Thumbs.db." in warnings
    assert any("1 image outside the class folders" in w and "stray.png" in w for w in warnings)


def test_a_flat_folder_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "1.png", "2.png", ".hidden/3.png")
    with pytest.raises(ValueError, match=r"must name the classes, but there are none \(2 images are directly"):
        list_folder(tmp_path)


def test_missing_and_imageless_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a folder"):
        list_folder(tmp_path / "nowhere")
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="at least one image, but none"):
        list_folder(tmp_path)


def test_links_are_followed_except_loops_and_dangling_ones(tmp_path: Path) -> None:
    root, elsewhere = touch(tmp_path / "root", "a/1.png"), touch(tmp_path / "elsewhere", "2.png", "sub/3.png")
    (root / "linked").symlink_to(elsewhere)
    (root / "a" / "image.png").symlink_to(elsewhere / "2.png")
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "self.png").symlink_to(root / "a" / "self.png")
    (root / "a" / "gone.png").symlink_to(root / "nothing.png")
    (elsewhere / "sub" / "again").symlink_to(elsewhere)
    listing = list_folder(root)
    assert ids(listing) == ["a/1.png", "a/image.png", "linked/2.png", "linked/sub/3.png"]
    assert any(w.startswith("2 broken links") and "a/gone.png, a/self.png" in w for w in listing.warnings)
    assert any(w.startswith("2 links into a parent folder") and "a/up, linked/sub/again" in w for w in listing.warnings)


def test_unicode_and_undecodable_names_become_valid_ids(tmp_path: Path) -> None:
    touch(tmp_path, "größe/日本 語.png", "größe/back\\slash.png")
    odd = os.fsencode(tmp_path / "größe") + b"/caf\xe9.png"
    Path(os.fsdecode(odd)).write_bytes(b"x")
    listing = list_folder(tmp_path)
    assert ids(listing) == [r"größe/back\\slash.png", r"größe/caf\xe9.png", "größe/日本 語.png"]
    assert {os.fsencode(item.path) for item in listing.items if item.path} >= {odd}
    assert all(item.path is not None and item.path.exists() for item in listing.items)


def test_escaped_names_are_distinct() -> None:
    names = ["caf\udce9", r"caf\xe9", r"caf\\xe9", "café"]
    assert len({escape_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("regex", "groups"),
    [(r"/(\w+)_", ["p1", "p1", "p2"]), (r"p\d", ["p1", "p1", "p2"]), (r"^(?:a|b)/(p)", ["p", "p", "p"])],
)
def test_groups_come_from_the_first_capture_or_the_match(tmp_path: Path, regex: str, groups: list[str]) -> None:
    touch(tmp_path, "a/p1_1.png", "a/p1_2.png", "b/p2_1.png")
    listing = list_folder(tmp_path, group_regex=regex)
    assert [item.group for item in listing.items] == groups
    assert NO_GROUPS not in listing.warnings
    assert listing.description["group_regex"] == regex


def test_a_path_that_the_regex_misses_is_an_error_with_examples(tmp_path: Path) -> None:
    touch(tmp_path, "a/p1_1.png", "a/other.png")
    with pytest.raises(ValueError, match=r"does not match 1 of 2 ids, for example 'a/other.png'"):
        list_folder(tmp_path, group_regex=r"(p\d)_")
    with pytest.raises(ValueError, match="must be valid"):
        list_folder(tmp_path, group_regex="(")


def test_no_groups_is_the_first_warning(tmp_path: Path) -> None:
    assert list_folder(touch(tmp_path, "a/1.png")).warnings[0] == NO_GROUPS


LEFT_BEHIND = (
    "__MACOSX/a/1.png",
    "System Volume Information/1.png",
    "a/@eaDir/1.png/SYNOPHOTO_THUMB.jpg",
    "a/Desktop.ini",
)


def test_what_systems_leave_behind_is_neither_class_nor_image(tmp_path: Path) -> None:
    listing = list_folder(touch(tmp_path, "a/1.png", "a/Thumbs.db", *LEFT_BEHIND))
    assert (ids(listing), listing.class_names) == (["a/1.png"], ("a",))
    told = "5 system files or folders were skipped: System Volume Information, __MACOSX, a/@eaDir …."
    assert told in listing.warnings


def test_formats_that_are_not_read_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png", "a/2.HEIC", "b/3.heic", "b/4.dng")
    told = "3 files of unsupported formats were skipped: 1 × .dng, 2 × .heic. Convert to PNG, JPEG or TIFF."
    assert told in list_folder(tmp_path).warnings
    (tmp_path / "a" / "1.png").unlink()
    with pytest.raises(ValueError, match=r"at least one image, but none .* 1 × \.dng, 2 × \.heic"):
        list_folder(tmp_path)


def test_folders_called_train_and_val_are_the_split_and_no_classes(tmp_path: Path) -> None:
    touch(tmp_path, "train/cat/1.png", "train/dog/deep/2.png", "Val/cat/1.png", "Val/elk/.keep", "docs/readme.txt")
    touch(tmp_path, "train/flat.png", "stray.png", "notes.txt")
    listing = list_folder(tmp_path)
    assert [(item.id, item.label, item.split) for item in listing.items] == [
        ("Val/cat/1.png", "cat", "Val"),
        ("train/cat/1.png", "cat", "train"),
        ("train/dog/deep/2.png", "dog", "train"),
    ]
    assert listing.class_names == ("cat", "dog", "elk")
    for told in (
        "The folders Val, train name splits, not classes: the folders inside them are the classes. "
        "Use --split source=given to train and evaluate with these splits.",
        "2 images outside the class folders were skipped: stray.png, train/flat.png.",
        "1 folder beside the split folders holds no images and was skipped: docs.",
        "1 class folder has no image; it stays in the class list: Val/elk.",
    ):
        assert told in listing.warnings


def test_the_parts_of_a_folder_reach_the_split(tmp_path: Path) -> None:
    for number, name in enumerate(("train/cat/1.png", "train/dog/2.png", "valid/cat/3.png", "test/dog/4.png")):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "set" / name)
    run(list_source(tmp_path / "set"), tmp_path / "cache")
    table = read_table(tmp_path / "cache")
    roles = make_split(table, SplitSpec(source="given", calibrate=0)).roles
    assert dict(zip(table.ids.tolist(), roles.tolist(), strict=True)) == {
        "test/dog/4.png": "test",
        "train/cat/1.png": "train",
        "train/dog/2.png": "train",
        "valid/cat/3.png": "select",
    }


def test_parts_of_a_set_without_classes_or_beside_classes_are_refused(tmp_path: Path) -> None:
    touch(
        tmp_path, "flat/train/1.png", "flat/val/2.png", "both/train/cat/1.png", "both/test/cat/2.png", "both/owl/3.png"
    )
    with pytest.raises(
        ValueError, match=r"The folders inside train, val of .* must name the classes, but there are none"
    ):
        list_folder(tmp_path / "flat")
    with pytest.raises(ValueError, match=r"must not be mixed .* in .* test, train are beside owl\. Move"):
        list_folder(tmp_path / "both")


def test_a_class_called_train_beside_others_is_a_class_and_told(tmp_path: Path) -> None:
    listing = list_folder(touch(tmp_path, "train/1.png", "car/2.png"))
    assert listing.class_names == ("car", "train")
    assert [item.split for item in listing.items] == [None, None]
    assert "Some classes have the name of a split: train. Check that they are classes." in listing.warnings


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_manifest_keeps_texts_as_written(tmp_path: Path) -> None:
    touch(tmp_path, "x/1.png")
    rows = "path,label,group,split,colour\nx/1.png,NA,007,train,red\n./x/2.png,010,,,\n"
    listing = list_manifest(write_csv(tmp_path / "m.csv", rows))
    assert [(i.id, i.label, i.group, i.split) for i in listing.items] == [
        ("x/1.png", "NA", "007", "train"),
        ("x/2.png", "010", None, None),
    ]
    assert [item.path for item in listing.items] == [tmp_path / "x/1.png", tmp_path / "x/2.png"]
    assert any("ignored: colour" in w for w in listing.warnings)
    assert any("1 of 2 images has no group" in w for w in listing.warnings)


def test_a_parquet_manifest_takes_integers_and_a_root(tmp_path: Path) -> None:
    touch(tmp_path / "images", "1.png", "2.png")
    table = pa.table({"path": ["2.png", str(tmp_path / "images" / "1.png")], "label": [10, 9], "group": [None, 3]})
    pq.write_table(table, tmp_path / "m.parquet")
    listing = list_manifest(tmp_path / "m.parquet", root=tmp_path / "images")
    assert [(i.id, i.label, i.group) for i in listing.items] == [("1.png", "9", "3"), ("2.png", "10", None)]
    assert listing.class_names == ("9", "10")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("path,klass\n1.png,a\n", "must have the columns path and label"),
        (
            "path,label\n1.png,\n",
            "must have a label for some of its images, but .* has none. Label a few of each class.",
        ),
        ("path,label\n,a\n", "Every row of a manifest must have a path, but 1 row of "),
        ("path,label\n1.png,a\n./1.png,b\n", "1 id occurs more than once, for example '1.png'"),
        ("path,label\nelsewhere/1.png,a\n", "none of the first 1 does"),
        ("path,label\n", "none was found"),
        ("", "must be a readable .csv file"),
    ],
)
def test_bad_manifests_are_refused(tmp_path: Path, rows: str, message: str) -> None:
    touch(tmp_path, "1.png")
    with pytest.raises(ValueError, match=message):
        list_manifest(write_csv(tmp_path / "m.csv", rows))


def test_fractional_labels_and_two_sources_of_groups_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "1.png")
    pq.write_table(pa.table({"path": ["1.png"], "label": [1.5]}), tmp_path / "m.parquet")
    with pytest.raises(ValueError, match=r"'label' must hold text or whole numbers, but row 0 .* holds 1\.5"):
        list_manifest(tmp_path / "m.parquet")
    with pytest.raises(ValueError, match="Groups must come from one source"):
        list_manifest(write_csv(tmp_path / "m.csv", "path,label,group\n1.png,a,g\n"), group_regex=".")


def test_list_source_tells_folders_from_manifests(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png")
    manifest = write_csv(tmp_path / "m.csv", "path,label\na/1.png,a\n")
    assert list_source(tmp_path).items == list_source(manifest).items == list_source(manifest, root=tmp_path).items
    with pytest.raises(ValueError, match="`root` applies only to manifests"):
        list_source(tmp_path, root=tmp_path)
    with pytest.raises(ValueError, match=r"\.csv or \.parquet"):
        list_source(tmp_path / "a" / "1.png")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "It needs a header with path and label"),
        (b"path,label\n1.png,a,b\n", "the same number of cells in every row"),
        (b"path;label\n1.png;a\n", "separated by ';': use commas"),
        (b"Path, label\n1.png,a\n", "must be exact, but .*'Path' for 'path', ' label' for 'label'. Rename them"),
        (b"path,label,Group\n1.png,a,g\n", "'Group' for 'group'. Rename it"),
        (
            "path,label\n1.png,größe\n".encode("latin-1"),
            r"byte 19 .*, in line 2, is 0xf6\. .* cp1252, .* reads '1\.png,größe'\. Save it with the encoding",
        ),
        ("path,label,größe\n1.png,a,1\n".encode("latin-1"), "UTF-8 text, but in .*Save it with the encoding UTF-8"),
        (b"name,label\n1.png,a\n", "Name them in its first line"),
    ],
)
def test_what_to_do_about_a_manifest_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    touch(tmp_path, "1.png")
    (tmp_path / "m.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list_manifest(tmp_path / "m.csv")


def test_a_second_spelling_beside_the_right_one_is_only_ignored(tmp_path: Path) -> None:
    touch(tmp_path, "1.png")
    listing = list_manifest(write_csv(tmp_path / "m.csv", "path,label,Label\n1.png,a,b\n"))
    assert listing.items[0].label == "a"
    assert any("ignored: Label" in warning for warning in listing.warnings)


def test_class_names_that_look_alike_are_warned_of(tmp_path: Path) -> None:
    touch(tmp_path, "Cat/1.png", "cat/1.png", "gro\u0308\u00dfe/1.png", "gr\u00f6\u00dfe/1.png", "dog/1.png")
    [told] = [warning for warning in list_folder(tmp_path).warnings if "separate classes" in warning]
    assert "'Cat' and 'cat', 'gro\\u0308\\xdfe' and 'gr\\xf6\\xdfe'." in told
    touch(tmp_path / "other", "cat/1.png", "cats/1.png")
    assert not any("separate classes" in warning for warning in list_folder(tmp_path / "other").warnings)


def test_a_source_that_does_not_exist_and_a_bad_regex_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"A source must be a folder.* does not exist\. Check the path"):
        list_source(tmp_path / "nothere")
    with pytest.raises(ValueError, match=r"must be valid, but '\(' is not .*Use a Python regular expression"):
        list_folder(touch(tmp_path, "a/1.png"), group_regex="(")


def test_times_of_a_manifest_sort_and_are_checked(tmp_path: Path) -> None:
    touch(tmp_path, "1.png")
    rows = "path,label,time\n1.png,a,2024-01-31\n2.png,a,2024-01-30T10:20\n3.png,a,\n4.png,b,20240131 235959.25\n"
    with pytest.raises(ValueError, match=r"row 3 of .* has '20240131 235959\.25'; 1 row is invalid"):
        list_manifest(write_csv(tmp_path / "m.csv", rows))
    listing = list_manifest(write_csv(tmp_path / "m.csv", rows.replace(".25", "")))
    times = [item.time for item in listing.items]
    assert times == ["2024-01-31", "2024-01-30T10:20:00", None, "2024-01-31T23:59:59"]
    assert sorted(t for t in times if t) == ["2024-01-30T10:20:00", "2024-01-31", "2024-01-31T23:59:59"]
    mixed = "path,label,time\n1.png,a,2024-01-31T10:20:30Z\n2.png,a,2024-01-31\n"
    with pytest.raises(ValueError, match=r"must have a UTC offset .* 1 of 2 has one and 2024-01-31 has none"):
        list_manifest(write_csv(tmp_path / "m.csv", mixed))


def test_times_of_a_parquet_manifest_may_be_timestamps(tmp_path: Path) -> None:
    touch(tmp_path, "1.png")
    when = [datetime(2024, 1, 31, 10, 20, 30), None]
    for kind, expected in (
        (pa.timestamp("ns"), "2024-01-31T10:20:30"),
        (pa.timestamp("us", tz="UTC"), "2024-01-31T10:20:30+00:00"),
        (pa.date32(), "2024-01-31"),
    ):
        table = pa.table({"path": ["1.png", "2.png"], "label": ["a", "b"], "time": pa.array(when).cast(kind)})
        pq.write_table(table, tmp_path / "m.parquet")
        assert [item.time for item in list_manifest(tmp_path / "m.parquet").items] == [expected, None]


def test_times_come_from_file_names(tmp_path: Path) -> None:
    touch(tmp_path, "a/cam1_20240131T102030_7.png", "a/cam1_20240201_8.png")
    listing = list_folder(tmp_path, time_regex=r"_([0-9T]+)_")
    assert [item.time for item in listing.items] == ["2024-01-31T10:20:30", "2024-02-01"]
    assert listing.description["time_regex"] == r"_([0-9T]+)_"
    assert "time_regex" not in list_folder(tmp_path).description
    with pytest.raises(ValueError, match=r"ISO 8601.* in 2 ids .* 'cam1' in 'a/cam1_20240131T102030_7.png'"):
        list_folder(tmp_path, time_regex=r"cam.")
    with pytest.raises(ValueError, match=r"The time regex must match every id, but .* 2 of 2 ids"):
        list_folder(tmp_path, time_regex=r"dog")
    manifest = write_csv(tmp_path / "m.csv", "path,label,time\na/cam1_20240201_8.png,a,2024-01-31\n")
    with pytest.raises(ValueError, match="Times must come from one source"):
        list_manifest(manifest, time_regex=r"_([0-9T]+)_")
