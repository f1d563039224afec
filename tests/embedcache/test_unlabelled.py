"""Images without a label: in the cache, but in no table or split that does not ask for them, until they have one."""

import numpy as np
import pytest

from frostbench.embedcache.checking.verify import cache_info, verify_cache
from frostbench.embedcache.index import load_or_make_map, neighbours
from frostbench.embedcache.labels.corrections import Correction
from frostbench.embedcache.labels.newly_labelled import with_newly_labelled
from frostbench.embedcache.labels.relabelling import LabelError, Relabelling, relabelled
from frostbench.embedcache.splits.making import SplitSpec, hash_roles, load_or_make_split
from frostbench.embedcache.table import read_table, rows_where

FULL = ("ant", "bee", "cow") * 6
LABELS = tuple("" if row in (2, 7, 16) else name for row, name in enumerate(FULL))
NEW = [2, 7, 16]
NAMES = ("ant", "bee", "cow")
SPEC = SplitSpec(test=0.3, select=0, calibrate=0)


def image(row):
    return f"img/{row:04d}.png"


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def stored(request):
    return request.param


def test_a_table_has_the_labelled_rows_unless_all_are_wanted(make_cache, stored):
    folder = make_cache(labels=LABELS, class_names=NAMES)
    table, whole = read_table(folder, stored=stored), read_table(folder, stored=stored, unlabelled=True)
    assert whole.ids.tolist() == [image(row) for row in range(18)]
    assert np.flatnonzero(whole.labels < 0).tolist() == NEW
    assert whole.label_names.tolist() == list(LABELS)
    assert table.ids.tolist() == [image(row) for row in range(18) if row not in NEW]
    assert (table.labels >= 0).all()
    x = table.stored["cls"].read(0, 15) if stored else table.columns["cls"]
    assert x[:, 0].tolist() == [row for row in range(18) if row not in NEW]


def test_rows_without_a_label_change_neither_hash_nor_split(make_cache):
    folder, full = make_cache(labels=LABELS, class_names=NAMES), read_table(make_cache(labels=FULL))
    table, same = read_table(folder), rows_where(full, np.array([bool(name) for name in LABELS]))
    assert table.content_hash == same.content_hash
    assert read_table(folder, unlabelled=True).content_hash not in (table.content_hash, full.content_hash)
    assert load_or_make_split(folder, table, SPEC).roles.shape == (15,)


def test_a_cache_with_them_is_sound_and_counts_them(make_cache):
    folder = make_cache(labels=LABELS, class_names=NAMES)
    assert verify_cache(folder).ok
    info = cache_info(folder)
    assert (info["n_ok"], info["unlabelled"]) == (18, 3)
    assert info["classes"] == {"ant": 6, "bee": 4, "cow": 5}


def test_neighbours_and_map_can_show_them(make_cache):
    folder = make_cache(labels=LABELS, class_names=NAMES)
    whole = read_table(folder, unlabelled=True)
    found = neighbours(whole, 17, ids=[image(2)]).rows
    assert set(found["label"]) == {""}
    assert found.set_index("neighbour").loc[image(7), "neighbour_label"] == ""
    assert load_or_make_map(folder, whole)["label"].tolist() == list(LABELS)
    assert len(load_or_make_map(folder, read_table(folder))) == 15


def labelled_now(folder, lines, spec, stored=False):
    """Return the split, and the table and split with rows that corrections label."""
    table = read_table(folder, stored=stored)
    split = load_or_make_split(folder, table, spec)
    return split, *with_newly_labelled(table, split, spec, lines)


def test_newly_labelled_images_are_training_rows(make_cache, stored):
    folder, spec = make_cache(labels=LABELS, class_names=NAMES), SPEC
    lines = (Correction(image(7), "", "bee"), Correction(image(16), "", "dog"), Correction(image(0), "ant", "bee"))
    before, table, split = labelled_now(folder, lines, spec, stored)
    assert table.ids.tolist() == [image(row) for row in range(18) if row != 2]
    assert split.roles[[6, 15]].tolist() == ["train", "train"]
    assert np.delete(split.roles, [6, 15]).tolist() == before.roles.tolist()
    assert split.hash == hash_roles(table.ids, split.roles) != before.hash
    assert split.report.warnings[-1] == "Newly labelled: 2 training rows."
    changed, roles, counts = relabelled(table, split, Relabelling(lines))
    assert changed.class_names == ("ant", "bee", "cow", "dog")
    assert changed.label_names[[0, 6, 15]].tolist() == ["bee", "bee", "dog"]
    assert counts.corrected == 3
    assert roles.report.counts["train"] == before.report.counts["train"] + 2
    assert (changed.labels >= 0).all()


@pytest.mark.parametrize(
    "lines", [(), (Correction(image(0), "ant", "bee"),), (Correction(image(7), "", ""),), (Correction("x", "", "bee"),)]
)
def test_nothing_is_added_where_no_label_is_new(make_cache, lines):
    before, table, split = labelled_now(make_cache(labels=LABELS, class_names=NAMES), lines, SPEC)
    assert split is before
    assert len(table.ids) == 15


def test_images_of_a_held_out_group_are_not_used(make_cache):
    groups = [f"g{row // 3}" for row in range(18)]
    folder, spec = make_cache(labels=LABELS, class_names=NAMES, groups=groups), SPEC
    lines = tuple(Correction(image(row), "", "cow") for row in NEW)
    before, _, split = labelled_now(folder, lines, spec)
    role_of_group = dict(zip(read_table(folder).groups.tolist(), before.roles.tolist(), strict=True))
    wanted = ["train" if role_of_group[groups[row]] == "train" else "unused" for row in NEW]
    assert "unused" in wanted
    assert split.roles[NEW].tolist() == wanted
    left = wanted.count("unused")
    assert split.report.warnings[-1].endswith(f"and {left} not used, because they belong with held-out images.")


def test_a_stated_role_other_than_training_is_kept_out(make_cache):
    splits = ["test" if row % 3 == 1 else "train" for row in range(18)]
    folder, spec = (
        make_cache(labels=LABELS, class_names=NAMES, splits=splits),
        SplitSpec(source="given", select=0, calibrate=0),
    )
    lines = tuple(Correction(image(row), "", "cow") for row in NEW)
    assert labelled_now(folder, lines, spec)[2].roles[NEW].tolist() == ["train", "unused", "unused"]


def test_near_copies_of_held_out_images_are_not_used(make_cache):
    """Row 0 is a zero vector; the others point the more in one direction the higher their number."""
    folder = make_cache(labels=LABELS, class_names=NAMES)
    lines = tuple(Correction(image(row), "", "cow") for row in NEW)
    assert labelled_now(folder, lines, SPEC)[2].roles[NEW].tolist() == ["train"] * 3
    near = SPEC.model_copy(update={"duplicates": 0.9999997, "seed": 3})
    before, _, split = labelled_now(folder, lines, near)
    assert before.roles[-5:].tolist() == ["test"] * 5
    assert split.roles[NEW].tolist() == ["train", "train", "unused"]


def test_folds_go_on_for_newly_labelled_images(make_cache):
    groups = [f"g{row}" if row != 7 else "g6" for row in range(18)]
    folder, spec = make_cache(labels=LABELS, class_names=NAMES, groups=groups), SplitSpec(folds=3, repeats=2, test=0)
    lines = tuple(Correction(image(row), "", "cow") for row in NEW)
    before, _, split = labelled_now(folder, lines, spec)
    assert split.folds.shape == (2, 18)
    assert np.array_equal(np.delete(split.folds, NEW, axis=1), before.folds)
    assert (split.folds[:, 7] == split.folds[:, 6]).all()
    assert set(split.folds[:, [2, 16]].ravel().tolist()) <= {0, 1, 2}


def test_a_correction_states_that_there_was_no_label(make_cache):
    folder = make_cache(labels=LABELS, class_names=NAMES)
    lines = (Correction(image(7), "bee", "cow"),)
    _, table, split = labelled_now(folder, lines, SPEC)
    with pytest.raises(LabelError, match=r"img/0007.png \(bee, now no label\). Correct or delete their lines."):
        relabelled(table, split, Relabelling(lines))
    with pytest.raises(LabelError, match=r"img/0000.png \(no label, now ant\)"):
        relabelled(read_table(folder), split, Relabelling((Correction(image(0), "", "bee"),)))
