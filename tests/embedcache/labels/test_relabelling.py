"""Corrected, merged and left-out labels: which rows, classes and roles remain."""

import numpy as np
import pytest

from frostbench.embedcache.labels.corrections import Correction, LabelError
from frostbench.embedcache.labels.relabelling import Changes, Relabelling, relabelled
from frostbench.embedcache.splits.making import SplitSpec, hash_roles, make_split
from frostbench.embedcache.table import read_table

LABELS = ("ant", "bee", "cow", "ant", "bee", "cow", "ant", "bee", "cow", "ant")
SPEC = SplitSpec(test=0.3, select=0, calibrate=0)


def image(row):
    return f"img/{row:04d}.png"


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def opened(request, make_cache):
    table = read_table(make_cache(labels=LABELS), stored=request.param)
    return table, make_split(table, SPEC)


def names_of(table):
    return [table.class_names[i] for i in table.labels]


def vectors_of(table):
    if table.stored:
        return {name: column.read(0, len(table.ids)) for name, column in table.stored.items()}
    return table.columns


def test_corrected_images_keep_their_place_and_role(opened):
    table, split = opened
    changes = Relabelling((Correction(image(1), "bee", "ant"), Correction(image(2), "cow", "dog")))
    changed, roles, counts = relabelled(table, split, changes)
    assert names_of(changed) == ["ant", "ant", "dog", *LABELS[3:]]
    assert changed.class_names == ("ant", "bee", "cow", "dog")
    assert roles.roles.tolist() == split.roles.tolist()
    assert roles.hash == split.hash
    assert counts == Changes(corrected=2, merged=0, left_out=0, done=0, elsewhere=0)
    assert roles.report.warnings[-1] == "Labels: 2 corrected."
    assert changed.content_hash != table.content_hash
    assert names_of(table) == list(LABELS)


def test_images_left_out_take_their_vectors_and_roles_along(opened):
    table, split = opened
    changes = Relabelling((Correction(image(0), "ant", ""),), leave_out=("cow",))
    changed, roles, counts = relabelled(table, split, changes)
    kept = np.array([row for row, label in enumerate(LABELS) if row and label != "cow"])
    assert changed.ids.tolist() == [image(row) for row in kept]
    assert changed.class_names == ("ant", "bee")
    for name, x in vectors_of(changed).items():
        assert np.array_equal(x, vectors_of(table)[name][kept])
    assert roles.roles.tolist() == split.roles[kept].tolist()
    assert roles.hash == hash_roles(changed.ids, roles.roles)
    assert roles.report.counts == {name: int((roles.roles == name).sum()) for name in split.report.counts}
    assert "cow" not in {name for names in roles.report.missing.values() for name in names}
    assert counts.left_out == 4
    assert str(counts) == "Labels: 4 left out."


def test_merged_classes_become_one(opened):
    table, split = opened
    changes = Relabelling((Correction(image(0), "ant", "cow"),), merge={"insect": ("ant", "bee")})
    changed, _, counts = relabelled(table, split, changes)
    assert changed.class_names == ("cow", "insect")
    assert names_of(changed) == ["cow", "insect", "cow", "insect", "insect", "cow", "insect", "insect", "cow", "insect"]
    assert (counts.corrected, counts.merged) == (1, 6)


def test_classes_can_swap_their_names(opened):
    table, split = opened
    changed, _, _ = relabelled(table, split, Relabelling(merge={"ant": ("bee",), "bee": ("ant",)}))
    swap = {"ant": "bee", "bee": "ant", "cow": "cow"}
    assert names_of(changed) == [swap[name] for name in LABELS]


def test_a_correction_that_the_cache_has_already_changes_nothing(opened):
    table, split = opened
    lines = (Correction(image(0), "bee", "ant"), Correction("elsewhere.png", "bee", "ant"))
    changed, _, counts = relabelled(table, split, Relabelling(lines))
    assert changed.content_hash == table.content_hash
    assert str(counts) == "Labels: 1 correct in the cache already, 1 not in this cache."


def test_a_correction_can_be_taken_back(opened):
    table, split = opened
    lines = (Correction(image(0), "ant", "bee"), Correction(image(0), "bee", "ant"))
    assert relabelled(table, split, Relabelling(lines))[0].content_hash == table.content_hash


def test_a_correction_of_another_label_is_refused(opened):
    table, split = opened
    lines = tuple(Correction(image(row), "dog", "ant") for row in (1, 2, 4, 5))
    wanted = (
        r"but 4 images have another one by now: img/0001.png \(dog, now bee\), .*, …. Correct or delete their lines."
    )
    with pytest.raises(LabelError, match=wanted):
        relabelled(table, split, Relabelling(lines))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Relabelling(leave_out=("dog",)), r"Classes to leave out must be among those of the cache, but dog is not."),
        (Relabelling(merge={"x": ("dog", "elk")}), r"Classes to merge must be .*, but dog, elk are not."),
        (Relabelling(merge={"x": ("ant",), "y": ("ant",)}), r"merged into one other, but ant is listed twice"),
        (
            Relabelling(leave_out=("ant", "bee")),
            r"needs two classes, but these changes leave 1 class.",
        ),
    ],
)
def test_impossible_changes_are_refused(opened, changes, message):
    with pytest.raises(LabelError, match=message):
        relabelled(*opened, changes)


def test_no_changes_are_neutral():
    assert Relabelling().is_neutral
    assert not Relabelling(leave_out=("ant",)).is_neutral


def test_folds_are_those_of_the_kept_rows(make_cache):
    table = read_table(make_cache(labels=LABELS * 3))
    split = make_split(table, SplitSpec(folds=3, test=0))
    kept = np.array([label != "cow" for label in LABELS * 3])
    _, roles, _ = relabelled(table, split, Relabelling(leave_out=("cow",)))
    assert np.array_equal(roles.folds, split.folds[:, kept])
