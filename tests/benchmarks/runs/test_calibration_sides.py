import numpy as np
import pytest
import torch

from frostbench.benchmarks.runs.calibration_sides import Rows, both_sides, scaled, source_of
from frostbench.embedcache.splits.making import Split, SplitReport
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.spec import fit_temperature
from frostbench.training.metrics.calibration import calibration_metrics


def overconfident(rows=300, classes=4, seed=0, scale=3.0):
    """Logits that are `scale` times calibrated ones; three rows per group."""
    generator = torch.Generator().manual_seed(seed)
    true = 1.5 * torch.randn(rows, classes, generator=generator)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    return Rows(scale * true, labels, torch.arange(rows) // 3)


def split_with(*roles):
    empty = dict.fromkeys(("train", "select", "calibrate", "test"), 0)
    report = SplitReport.model_construct(counts=empty, groups=empty)
    return Split(np.array(roles), "h", report)


@pytest.mark.parametrize(
    ("roles", "select", "test"),
    [
        (("train", "select", "calibrate", "test"), "calibrate", "calibrate"),
        (("train", "select", "test"), "folds", "select"),
        (("train", "test"), "folds", "folds"),
    ],
)
def test_what_temperatures_are_fitted_to(roles, select, test):
    split = split_with(*roles)
    assert (source_of(split, "select"), source_of(split, "test")) == (select, test)


def test_a_temperature_from_rows_apart():
    judged, other = overconfident(seed=0), overconfident(seed=1)
    apart = Calibration(other.logits, other.labels)
    found = scaled(judged, apart)
    wanted = fit_temperature(other.logits, other.labels)
    assert found.temperature == wanted
    assert wanted == pytest.approx(3.0, rel=0.2)
    assert torch.allclose(found.log_p, (judged.logits.double() / wanted).log_softmax(1))


def test_without_rows_apart_no_row_meets_a_temperature_fitted_to_its_group():
    rows = overconfident()
    found = scaled(rows, None)
    assert found.temperature == fit_temperature(rows.logits, rows.labels)
    scales = (rows.logits.double()[:, 0] - rows.logits.double()[:, 1]) / (found.log_p[:, 0] - found.log_p[:, 1])
    assert len(torch.unique(scales.round(decimals=6))) == 5
    # Changing the labels of one group changes the temperatures of all folds but its own.
    turned = rows.labels.clone()
    turned[1:3] = (turned[1:3] + 1) % 4
    moved = scaled(Rows(rows.logits, turned, rows.groups), None)
    same = (moved.log_p - found.log_p).abs().amax(1) < 1e-9
    assert same[:3].all()
    assert 50 <= int(same.sum()) <= 70
    assert all(len(set(same[rows.groups == group].tolist())) == 1 for group in rows.groups.unique())


def test_scaling_leaves_decisions_and_mends_overconfidence():
    judged, other = overconfident(seed=0), overconfident(seed=1)
    found = both_sides(judged, Calibration(other.logits, other.labels))
    assert found["after"]["temperature"] == pytest.approx(3.0, rel=0.2)
    assert found["after"]["nll"] < found["before"]["nll"]
    assert found["after"]["ece"] < found["before"]["ece"] / 2
    assert found["before"] == calibration_metrics(judged.logits.double().log_softmax(1), judged.labels)
    after = scaled(judged, Calibration(other.logits, other.labels)).log_p
    assert torch.equal(after.argmax(1), judged.logits.argmax(1))


def test_rows_of_untrained_classes_fit_nothing():
    rows = overconfident()
    logits = torch.cat([rows.logits, torch.full((300, 1), -torch.inf)], 1)
    labels = rows.labels.clone()
    labels[::7] = 4
    kept = torch.ones(300, dtype=torch.bool)
    kept[::7] = False
    found = scaled(Rows(logits, labels, rows.groups), Calibration(logits, labels))
    assert found.temperature == fit_temperature(logits[kept], labels[kept])


@pytest.mark.parametrize("case", ["one group", "untrained", "nan", "nan apart", "inf"])
def test_where_there_is_nothing_to_fit_to_there_is_no_side_after(case):
    rows, apart = overconfident(rows=9), None
    if case == "one group":
        rows = Rows(rows.logits, rows.labels, torch.zeros(9, dtype=torch.long))
    elif case == "untrained":
        rows = Rows(rows.logits.index_fill(1, torch.tensor([2]), -torch.inf), torch.full((9,), 2), rows.groups)
    elif case == "inf":
        rows = Rows(rows.logits.index_fill(1, torch.tensor([2]), torch.inf), rows.labels, rows.groups)
    elif case == "nan":
        rows = Rows(rows.logits * torch.nan, rows.labels, rows.groups)
    else:
        apart = Calibration(rows.logits * torch.nan, rows.labels)
    found = both_sides(rows, apart)
    assert list(found) == ["before"]
    if case in ("nan", "inf"):
        assert found["before"]["ece"] is None


def test_a_fold_that_holds_all_known_rows_is_not_judged_by_its_own_temperature():
    """All rows but those of one group have a class without training rows."""
    logits = torch.tensor([[2.0, 0, -torch.inf]] * 3 + [[1.0, 0, -torch.inf]] * 9)
    rows = Rows(logits, torch.tensor([0, 0, 1] + [2] * 9), torch.arange(12) // 3)
    assert scaled(rows, None) is None
    known = Rows(logits, torch.tensor([0, 0, 1] * 2 + [2] * 6), torch.arange(12) // 3)
    assert scaled(known, None) is not None
