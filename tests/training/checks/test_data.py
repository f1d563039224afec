"""What a run needs of the data is asked for before the first step."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.training.checks import data as checks
from frostbench.training.checks.data import check_data
from frostbench.training.checks.notes import epoch_notes, notes_for, posthoc_notes
from frostbench.training.data.part import Data, Part, Views
from frostbench.training.losses import bcl
from frostbench.training.run import RunSpec

NAMES = ("ash", "beech", "cedar")


def part(rows, shape=(8,), groups=None, classes=3):
    labels = torch.arange(rows) % classes
    x = torch.randn(rows, *shape, generator=torch.Generator().manual_seed(rows))
    return Part({"avg": x}, labels, None if groups is None else torch.tensor(groups))


def data_of(shape=(8,), select=6, groups=None, names=NAMES):
    classes = len(names)
    parts = [part(12, shape, groups, classes), part(select, shape, None, classes), part(6, shape, None, classes)]
    return Data(*parts, names)


def run_of(changes):
    return parse(RunSpec, with_changes(RunSpec().model_dump(mode="json"), changes))


def refused(changes, data, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        check_data([run_of(changes)], data)


POOLED = {"head.body.kind": "attention_pool", "head.body.heads": 4}


def test_tokens_are_pooled_and_nothing_else_is():
    tokens, vectors = data_of((5, 8)), data_of()
    check_data([run_of(POOLED)], tokens)
    refused({}, tokens, "Tokens [N, T, D] must be pooled to a vector, but column avg holds tokens")
    refused({"head.body.kind": "mlp"}, tokens, "head.body.kind is mlp. Set head.body.kind=attention_pool")
    refused(POOLED, vectors, "attention_pool reads tokens [N, T, D], but column avg holds one vector")


def test_several_columns_are_named_in_the_plural():
    for data, changes, told in (
        (_twice(data_of((5, 8))), {}, "columns avg, more hold tokens and head.body.kind is identity"),
        (_twice(data_of()), POOLED, "columns avg, more hold one vector per image"),
    ):
        refused({"columns": ["avg", "more"]} | changes, data, told)
    broken = data_of()
    broken.train.columns["avg"][3, 1] = torch.nan
    refused({}, broken, "but 1 of 12 train rows of column avg holds NaN or infinity, the first in row 3.")
    broken.train.columns["avg"][7, 1] = torch.nan
    refused({}, broken, "but 2 of 12 train rows of column avg hold NaN or infinity, the first in row 3.")
    told = "but 2 of 12 train rows of columns avg, more hold NaN or infinity, the first in row 3."
    refused({"columns": ["avg", "more"]}, _twice(broken), told)


def test_attention_heads_divide_the_width_of_the_columns_read():
    tokens = data_of((5, 9))
    refused(POOLED, tokens, "must divide the token width 9, got 4. Use one of [1, 3, 9].")
    both = _twice(tokens)
    joined = {"columns": ["avg", "more"], "head.body.kind": "attention_pool"}
    check_data([run_of(joined | {"head.body.heads": 6})], both)
    refused(joined | {"head.body.heads": 4}, both, "must divide the token width 18, got 4")


def _parts(data):
    return {"train": data.train, "select": data.select, "calibrate": data.calibrate}


def _twice(data):
    """The data with a copy of its column."""
    parts = {r: replace(p, columns=p.columns | {"more": p.columns["avg"]}) for r, p in _parts(data).items()}
    return Data(**parts, class_names=NAMES)


def test_groups_are_counted_where_there_are_some():
    counted = {"train.loss.class_weight.kind": "inverse", "train.loss.count": "groups"}
    refused(counted, data_of(), "train.loss.count=groups needs the groups of the training rows, but there are none")
    check_data([run_of(counted)], data_of(groups=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]))


def test_bcl_is_for_few_classes(monkeypatch):
    contrast = {"head.body.kind": "mlp", "train.loss.bcl.weight": 0.3}
    check_data([run_of(contrast)], data_of())
    names = tuple(f"c{number}" for number in range(3000))
    few = data_of()
    # Classes without training rows have no prototype.
    check_data([run_of(contrast)], Data(few.train, few.select, few.calibrate, names))
    monkeypatch.setattr(bcl, "MOST_PROTOTYPES", 2)
    refused(
        contrast,
        few,
        "at most 2 classes, because every batch holds a prototype of each, got 3 classes with training rows",
    )


def test_cpc_is_for_three_classes():
    cpc = {"train.loss.point.kind": "cpc"}
    check_data([run_of(cpc)], data_of())
    two = data_of()
    labels = two.train.labels.clamp(max=1)
    two = Data(Part(two.train.columns, labels), two.select, two.calibrate, two.class_names)
    refused(cpc, two, "needs at least three classes with training rows, got 2")
    check_data([run_of({**cpc, "head.classifier.kind": "ridge"})], two)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Training keeps the best epoch on the validation rows, but there are none"),
        ({"head.body.kind": "mlp", "second.kind": "tau_norm"}, "Training keeps the best epoch"),
        (
            {"head.classifier.kind": "logreg", "posthoc.adjustment.rule": "tuned"},
            "posthoc.adjustment.rule=tuned chooses its strength on the validation rows, but there are none",
        ),
    ],
)
def test_what_is_found_on_selection_rows_needs_some(changes, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        check_data([run_of(changes)], data_of(select=0))


def test_a_solved_head_needs_no_selection_rows():
    check_data([run_of({"head.classifier.kind": "ridge"})], data_of(select=0))


@pytest.mark.parametrize("kind", ["linear", "cosine", "lda", "knn", "logreg", "ncm"])
def test_training_rows_of_one_class_are_refused(kind):
    told = "Training needs at least two classes, but all 12 training rows are of class 'ash'"
    refused({"head.classifier.kind": kind}, data_of(names=("ash",)), told)
    listed = data_of()
    rows = replace(listed.train, labels=torch.zeros_like(listed.train.labels))
    refused({"head.classifier.kind": kind}, replace(listed, train=rows), told)


def test_text_weights_are_looked_up_before_training(tmp_path):
    file, narrow = tmp_path / "text.npz", tmp_path / "narrow.npz"
    np.savez(file, weights=np.eye(3, 8), class_names=np.array(["ash", "beech", "oak"]))
    np.savez(narrow, weights=np.eye(3, 4), class_names=np.array(NAMES))
    zero_shot = {"head.classifier.kind": "zero_shot"}
    refused(zero_shot, data_of(), "Class weights need an .npz file, but '' does not exist")
    refused(zero_shot | {"head.classifier.file": str(file)}, data_of(), "all 3 classes, but ['cedar'] are missing")
    refused(zero_shot | {"head.classifier.file": str(narrow)}, data_of(), "as wide as the classifier's input, 8")
    start = {"head.classifier": {"kind": "cosine", "init": "weights", "file": str(file)}}
    refused(start, data_of(), "all 3 classes, but ['cedar'] are missing")
    check_data([run_of(start)], data_of(names=("ash", "beech", "oak")))


def test_smote_needs_its_package(monkeypatch):
    check_data([run_of({"train.oversample.kind": "smote"})], data_of())
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    refused({"train.oversample.kind": "smote"}, data_of(), "Run: pip install 'frostbench[smote]'")
    check_data([run_of({"train.oversample.kind": "gaussian"})], data_of())


def test_options_that_do_not_go_together_come_first():
    with pytest.raises(ValueError, match="a head without a body has none"):
        check_data([run_of({"train.loss.supcon.weight": 1})], data_of(select=0))


def test_epochs_that_min_steps_overrules_are_told_for_both_stages():
    run = run_of({"head.body.kind": "mlp", "second.kind": "crt", "train.schedule.epochs": 10})
    assert [note.split(",")[0] for note in notes_for(run, 640)] == [
        "train.schedule.epochs=10 becomes 100",
        "second.epochs=10 becomes 100",
    ]
    assert notes_for(run, 640_000) == ()


def test_an_epoch_after_the_last_is_told():
    run = run_of({"head.body.kind": "mlp", "second.kind": "lws", "second.epoch": 3, "train.early_stop.epoch": 60})
    assert notes_for(run, 640_000) == ("train.early_stop.epoch=60 becomes 50, because training ends there",)
    late = run_of({"head.body.kind": "mlp", "second.kind": "lws", "second.epoch": 6, "train.early_stop.epoch": 50})
    assert notes_for(late, 640_000) == ("second.epoch=6 becomes 5, because training ends there",)


def test_a_vote_of_more_rows_than_there_are_is_told():
    run = run_of({"head.classifier.kind": "knn"})
    assert notes_for(run, 12) == ("head.classifier.k=20 is reduced to 12, the number of training rows",)
    assert notes_for(run, 20) == ()
    refit = run_of({"head.body.kind": "mlp", "second": {"kind": "refit", "classifier": {"kind": "knn", "k": 30}}})
    assert notes_for(refit, 25)[-1].startswith("second.classifier.k=30 is reduced to 25")


def test_the_metric_counts_a_class_of_the_selection_rows():
    data = data_of()
    words = "Choices by recall_few need validation rows of a class that it counts, but there are none"
    many = replace(data, train=part(63))
    check_data([run_of({"train.early_stop.metric": "recall_few"})], data)
    refused({"train.early_stop.metric": "recall_few"}, many, words)
    check_data([run_of({"train.early_stop": {"metric": "recall_few", "epoch": 3}})], many)
    check_data([run_of({"head.classifier.kind": "ridge", "train.early_stop.metric": "recall_few"})], many)
    tuned = {"head.classifier.kind": "ridge", "posthoc.adjustment.rule": "tuned"}
    refused(tuned | {"train.early_stop.metric": "recall_few"}, many, words)
    unseen = replace(data, train=part(12, classes=2), select=Part({"avg": torch.zeros(1, 8)}, torch.tensor([2])))
    refused({"train.early_stop.metric": "nll"}, unseen, "Choices by nll need validation rows")


def test_a_single_row_or_step_is_told_in_the_singular():
    run = run_of({"train.schedule.epochs": 3, "posthoc.calibration.kind": "isotonic"})
    assert notes_for(run, 12)[0].endswith("and 12 rows give 1 step per epoch")
    assert notes_for(run, 640)[0].endswith("steps per epoch")
    one = torch.zeros(1, dtype=torch.int64)
    assert epoch_notes(run, one)[0].startswith("the epoch with the lowest NLL on the only validation row is kept:")
    assert "kind=isotonic is fitted to 1 row; below" in posthoc_notes(run, one)[0]
    told = "there is only 1 calibration and validation row, and a temperature needs"
    assert told in posthoc_notes(run_of({"posthoc.calibration.kind": "auto"}), one)[0]
    refused({}, replace(data_of(), train=part(1)), "but the only training row is of class 'ash'")


def test_calibration_rows_hold_a_trained_class():
    third = Part({"avg": torch.zeros(1, 8)}, torch.tensor([2]))
    unseen = replace(data_of(), train=part(12, classes=2), calibrate=third)
    check_data([run_of({})], unseen)
    refused({"posthoc.calibration.kind": "temperature"}, unseen, "but the only calibration row belongs to others")


@pytest.mark.parametrize(("body", "width"), [({}, 8), ({"head.body": {"kind": "mlp", "hidden": [5, 4]}}, 4)])
def test_matrices_of_mahalanobis_are_too_large_before_training(body, width):
    classifier = {"kind": "mahalanobis", "max_gigabytes": 1e-9}
    changes = {"second": {"kind": "refit", "classifier": classifier}} if body else {"head.classifier": classifier}
    with pytest.raises(ValueError, match=rf"3 classes with {width} inputs need 0\.0 GB"):
        check_data([run_of(body | changes)], data_of())


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_views_that_are_not_finite_are_refused(value):
    rows = torch.arange(12)
    x = torch.randn(12, 8)
    broken = x.clone()
    broken[[3, 5], 1] = value
    views = {name: Views({"avg": v}, rows, rows % 3, torch.ones(12)) for name, v in (("flip", x), ("cut", broken))}
    data = replace(data_of(), views=views, averaged={"turn": {"turn#0": {}}})
    check_data([RunSpec(view_sets=("flip",))], data)
    with pytest.raises(ValueError, match=r"2 rows of column 'avg' of view set 'cut' .* first in row 3"):
        check_data([RunSpec(view_sets=("flip", "cut"))], data)
    seen = replace(data.select, also={"avg@turn#0": broken[:6]})
    with pytest.raises(ValueError, match=r"2 rows of 'avg@turn#0' of select rows"):
        check_data([RunSpec(tta=("turn",))], replace(data, select=seen))
    check_data([RunSpec()], replace(data, select=seen))


def test_views_of_two_images_refuse_what_takes_one_label():
    rows = torch.arange(12)
    views = {"cut": Views({"avg": torch.randn(12, 8)}, rows, (rows + 1) % 3, torch.full((12,), 0.5))}
    data = replace(data_of(), views=views)
    rule = "views of two images (cut) have two labels per row, but "
    one, other = {"train.oversample.kind": "gaussian"}, {"train.loss.vace.strength": 0.5}
    both = "train.oversample.kind=gaussian, train.loss.vace take one label per row."
    refused({"view_sets": ["cut"]} | one, data, f"{rule}train.oversample.kind=gaussian takes one label per row.")
    refused({"view_sets": ["cut"]} | one | other, data, f"{rule}{both}")
