"""Calibration and decisions after training: which rows they are fitted to, and for which class prior."""

import math
from dataclasses import replace

import pytest
import torch

from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import cross_fitted, folds_of
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec, fit_temperature
from frostbench.training.checks.data import check_data
from frostbench.training.checks.notes import posthoc_notes
from frostbench.training.crossval.crossval import CrossValidated, cross_validate
from frostbench.training.data.part import Part
from frostbench.training.engine.events import Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import all_metrics
from frostbench.training.run import RunSpec

LOGREG = {"head": {"classifier": {"kind": "logreg", "tolerance": 1e-3}}}
NAMES = ("ash", "beech", "cedar", "elm")
EVEN = {"ash": 1, "beech": 1, "cedar": 1, "elm": 1}
FITTED = {
    "temperature": {"calibration": {"kind": "temperature"}},
    "vector": {"calibration": {"kind": "vector"}},
    "matrix": {"calibration": {"kind": "matrix"}},
    "isotonic": {"calibration": {"kind": "isotonic"}},
    "top_label": {"calibration": {"kind": "isotonic", "form": "top_label"}},
    "thresholds": {"thresholds": {"kind": "coordinate_ascent"}},
    "wanted": {"shift": {"kind": "wanted", "targets": {"elm": 0.6}}},
}


AUTO = {}
"""The default calibration."""


def run(posthoc, **fields):
    return RunSpec.model_validate(LOGREG | {"posthoc": posthoc} | fields)


def finished(data, posthoc, **fields):
    (end,) = [event for event in fit([run(posthoc, **fields)], data) if isinstance(event, Finished)]
    return end


def spoiled(part):
    """Return other rows with other labels."""
    return Part({"avg": part.columns["avg"].flip(0) + 1}, (part.labels + 1) % 4)


@pytest.mark.parametrize("kind", FITTED)
def test_layers_are_fitted_to_calibration_rows_and_no_others(long_tail, kind):
    end = finished(long_tail, FITTED[kind])
    part = long_tail.calibrate
    rows = Calibration(end.head.logits(part.columns), part.labels)
    wanted = Layers.of(PosthocSpec.model_validate(FITTED[kind]), long_tail.class_names).fitted_to(rows)
    assert end.head.layers.numbers.keys() == wanted.numbers.keys()
    assert all(torch.equal(end.head.layers.numbers[name], value) for name, value in wanted.numbers.items())
    assert (end.head.layers.bias is None) == (wanted.bias is None)
    assert wanted.bias is None or torch.equal(end.head.layers.bias, wanted.bias)
    assert end.held_out is None
    other = finished(replace(long_tail, select=spoiled(long_tail.select)), FITTED[kind])
    log_p = end.head.log_probabilities(part.columns)
    assert torch.equal(other.head.log_probabilities(part.columns), log_p)
    assert torch.equal(other.head.decide(log_p), end.head.decide(log_p))
    moved = finished(replace(long_tail, calibrate=spoiled(part)), FITTED[kind])
    assert torch.equal(moved.head.logits(part.columns), end.head.logits(part.columns))
    assert not torch.equal(moved.head.log_probabilities(part.columns), log_p) or not torch.equal(
        moved.head.layers.bias, end.head.layers.bias
    )


@pytest.mark.parametrize("kind", FITTED)
def test_on_selection_rows_they_are_fitted_to_all_and_evaluated_by_cross_fitting(long_tail, kind):
    spec = FITTED[kind] | {"rows": "select"}
    groups = torch.arange(120) // 2
    grouped = replace(long_tail.select, groups=groups)
    nothing = Part({"avg": torch.zeros(0, 8)}, torch.zeros(0, dtype=torch.int64))
    end = finished(replace(long_tail, select=grouped, calibrate=nothing), spec)
    logits = end.head.logits(grouped.columns)
    layers = Layers.of(PosthocSpec.model_validate(spec), long_tail.class_names)
    whole = layers.fitted_to(Calibration(logits, grouped.labels))
    log_p = whole.log_probabilities(logits)
    assert torch.equal(end.head.log_probabilities(grouped.columns), log_p)
    assert torch.equal(end.head.decide(log_p), whole.decide(log_p))
    wanted = cross_fitted(layers, logits, grouped.labels, folds_of(grouped.labels, groups))
    assert torch.equal(end.held_out.log_p, wanted.log_p)
    assert torch.equal(end.held_out.predicted, wanted.predicted)
    assert not torch.equal(end.held_out.log_p, log_p) or not torch.equal(end.held_out.predicted, whole.decide(log_p))


def test_a_prior_for_deployment_is_what_the_head_carries(long_tail):
    plain = finished(long_tail, {"calibration": {"kind": "none"}}).head
    shares = {"ash": 1, "beech": 2, "cedar": 3, "elm": 4}
    head = finished(long_tail, {"calibration": {"kind": "none"}, "deploy_prior": shares}).head
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    x = long_tail.select.columns
    assert torch.allclose(head.log_probabilities(x), plain.log_probabilities(x, prior), atol=1e-5)
    assert torch.allclose(head.priors.implied, prior)
    assert torch.allclose(head.log_probabilities(x, plain.priors.implied), plain.log_probabilities(x), atol=1e-5)


@pytest.mark.parametrize("kind", FITTED)
def test_layers_are_fitted_for_the_prior_of_the_deployment(long_tail, kind):
    """There are 30 calibration rows of each class, so their weights differ for a prior of 1 : 2 : 3 : 4."""
    shares = {"ash": 1, "beech": 2, "cedar": 3, "elm": 4}
    head = finished(long_tail, FITTED[kind] | {"deploy_prior": shares}).head
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    wanted = finished(long_tail, FITTED[kind]).head.under(prior)
    x = long_tail.select.columns
    log_p = head.log_probabilities(x)
    assert torch.allclose(log_p, wanted.log_probabilities(x), atol=1e-4)
    assert (head.decide(log_p) == wanted.decide(log_p)).double().mean() > 0.98


def test_metrics_of_thresholds_are_those_of_the_evaluation(long_tail):
    """Coordinate ascent maximises the macro F1 that a run is evaluated with, without the background."""
    head = finished(long_tail, {}).head
    part = long_tail.calibrate
    log_p = head.log_probabilities(part.columns).double()
    tuned = CoordinateAscent(shrink=0, passes=20).fit(log_p, part.labels, torch.ones(120).double(), (0,))
    values = []
    for log_t in (torch.zeros(4), tuned):
        found = all_metrics(log_p, part.labels, head.counts, (0,), (log_p - log_t).argmax(1))
        values.append(found["macro_f1_fg"])
    assert values[1] > values[0]
    for own in range(4):
        for step in (-0.2, 0.2):
            near = tuned.clone()
            near[own] += step * math.log(10)
            if near[own].abs() > math.log(10) + 1e-9:
                continue
            found = all_metrics(log_p, part.labels, head.counts, (0,), (log_p - near).argmax(1))
            assert found["macro_f1_fg"] <= values[1] + 1e-12


@pytest.mark.parametrize(
    ("posthoc", "message"),
    [
        ({"deploy_prior": {"ash": 1, "beech": 1}}, r"\['cedar', 'elm'\] are missing and \[\] are not classes"),
        ({"deploy_prior": EVEN | {"fir": 1}}, r"\[\] are missing and \['fir'\] are not classes"),
        (
            {"shift": {"kind": "given", "logits": {"fir": 1}}},
            r"posthoc.shift.logits must name .* rows, got .*'fir'",
        ),
        (
            {"shift": {"kind": "wanted", "targets": {"oak": 1}}},
            r"posthoc.shift.targets must name .* rows, got .*'oak'",
        ),
        ({"calibration": {"kind": "vector"}, "rows": "select"}, "fitted to the validation rows, but there are none"),
        (FITTED["thresholds"], "fitted to the calibration rows, but there are none"),
        (FITTED["wanted"], "fitted to the calibration rows, but there are none"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_training(long_tail, posthoc, message):
    nothing = Part({"avg": torch.zeros(0, 8)}, torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match=message):
        check_data([run(posthoc)], replace(long_tail, calibrate=nothing, select=nothing))


def only(part, kept):
    return Part({"avg": part.columns["avg"][kept]}, part.labels[kept])


def test_too_few_rows_are_refused_before_training(long_tail):
    part = long_tail.calibrate
    few = replace(long_tail, calibrate=only(part, torch.arange(120) % 8 == 0))
    with pytest.raises(ValueError, match="at least 16 rows and at most 100 classes, got 15 rows"):
        check_data([run(FITTED["matrix"])], few)
    check_data([run({"calibration": {"kind": "matrix", "size": "any"}})], few)
    with pytest.raises(ValueError, match=r"measured on its calibration rows, but \['elm'\] have none"):
        check_data([run(FITTED["wanted"])], replace(long_tail, calibrate=only(part, part.labels < 3)))
    one_group = replace(long_tail.select, groups=torch.zeros(120, dtype=torch.int64))
    for posthoc in (FITTED["vector"] | {"rows": "select"}, {"rows": "select"}, {"rows": "both"}):
        with pytest.raises(ValueError, match="at least 2 groups of rows, got 1"):
            check_data([run(posthoc)], replace(long_tail, select=one_group))
    check_data([run(AUTO), run({"calibration": {"kind": "none"}})], replace(long_tail, select=one_group))


@pytest.mark.parametrize("classifier", ["linear", "logreg", "ridge"])
def test_a_run_whose_decisions_cannot_be_had_fails_alone(long_tail, classifier):
    short = {"schedule": {"epochs": 2, "min_steps": 0}}
    tree = {"head": {"classifier": {"kind": classifier}}, "train": short}
    never = {"shift": {"kind": "wanted", "metric": "precision", "targets": {"ash": 1, "elm": 1}}}
    # Every vector occurs with each label, so no class can have a precision above a quarter.
    alike = long_tail.calibrate.columns["avg"].repeat_interleave(4, 0)
    data = replace(long_tail, calibrate=Part({"avg": alike}, torch.arange(480) % 4))
    events = list(fit([RunSpec.model_validate(tree | {"posthoc": never}), RunSpec.model_validate(tree)], data))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.run == 0
    assert failed.message.startswith("A shift must reach the required precision, but for class")
    assert [event.run for event in events if isinstance(event, Finished)] == [1]


def test_few_rows_are_noted():
    labels = torch.arange(5).repeat_interleave(torch.tensor([40, 30, 20, 12, 4]))
    notes = posthoc_notes(run({"calibration": {"kind": "matrix", "size": "any"}}), labels[labels > 2])
    assert notes[0].startswith("posthoc.calibration.kind=matrix is fitted to 16 rows; below about 1000")
    assert len(posthoc_notes(run({"calibration": {"kind": "matrix", "size": "any"}}), torch.arange(5))) == 2
    assert posthoc_notes(run(FITTED["thresholds"]), labels) == (
        "thresholds of 2 of 5 classes are tuned on fewer than 20 rows, so they are shrunk by more than half",
    )
    assert posthoc_notes(run(FITTED["temperature"]), labels) == ()
    assert posthoc_notes(run(FITTED["isotonic"]), torch.zeros(1000, dtype=torch.int64)) == ()


class TestCrossValidation:
    def ended(self, data, posthoc):
        folds = (torch.arange(180) % 3)[None]
        (end,) = [e for e in cross_validate([run(posthoc)], data, folds) if isinstance(e, CrossValidated)]
        return end, folds[0]

    @pytest.mark.parametrize("kind", FITTED)
    def test_layers_are_fitted_to_held_out_rows_and_evaluated_with_those_of_other_folds(self, long_tail, kind):
        posthoc = FITTED[kind] | {"rows": "calibrate"}
        end, folds = self.ended(long_tail, posthoc)
        logits, labels = end.predictions.logits, long_tail.train.labels
        layers = Layers.of(PosthocSpec.model_validate(posthoc), long_tail.class_names)
        whole = layers.fitted_to(Calibration(logits, labels))
        head = end.finished.head
        x = long_tail.select.columns
        assert torch.equal(head.log_probabilities(x), whole.log_probabilities(head.logits(x)))
        assert head.layers.bias is None or torch.equal(head.layers.bias, whole.bias)
        wanted = cross_fitted(layers, logits, labels, folds)
        assert torch.equal(end.predictions.log_p, wanted.log_p)
        assert torch.equal(end.predictions.predicted, wanted.predicted)

    def test_a_prior_for_deployment_moves_head_and_held_out_rows(self, long_tail):
        posthoc = {"calibration": {"kind": "temperature"}}
        plain, _ = self.ended(long_tail, {})
        end, folds = self.ended(long_tail, posthoc | {"deploy_prior": EVEN, "adjustment": {"tau": 0}})
        labels = long_tail.train.labels
        for fold in range(3):
            held = folds == fold
            share = torch.bincount(labels[~held]).double() / (~held).sum()
            moved = (plain.predictions.logits[held] - share.log()).log_softmax(1)
            assert torch.allclose(end.predictions.logits[held].log_softmax(1), moved.float(), atol=1e-5)
        weight = (0.25 / (torch.bincount(labels) / 180))[labels]
        assert end.finished.head.temperature == pytest.approx(fit_temperature(end.predictions.logits, labels, weight))
        assert end.finished.head.priors.implied.tolist() == pytest.approx([0.25] * 4)


class TestAutomaticTemperature:
    """The calibration of a run that does not choose one."""

    def most_probable(self, logits, labels):
        """Return the temperature by brute force, with a standard normal prior on log T."""
        grid = torch.linspace(-3, 3, 60_001, dtype=torch.float64)
        exact = logits.double()
        own = exact.gather(1, labels[:, None]).squeeze(1)
        total = torch.stack([((exact / t).logsumexp(1) - own / t).sum() for t in grid.exp()])
        return float(grid[(total + grid**2 / 2).argmin()].exp())

    def test_a_hundred_calibration_rows_are_enough_alone(self, long_tail):
        assert len(long_tail.calibrate) >= 100
        end = finished(long_tail, AUTO)
        logits = end.head.logits(long_tail.calibrate.columns)
        assert end.head.temperature == pytest.approx(self.most_probable(logits, long_tail.calibrate.labels), rel=2e-4)
        assert (end.held_out, end.chosen.temperature) == (None, None)
        assert end.head.layers.spec.rows == "calibrate"
        moved = finished(replace(long_tail, select=spoiled(long_tail.select)), AUTO)
        assert moved.head.temperature == end.head.temperature

    def test_with_fewer_the_selection_rows_are_used_too_and_evaluated_by_cross_fitting(self, long_tail):
        few = replace(long_tail, calibrate=first_rows(long_tail.calibrate, 12))
        end = finished(few, AUTO)
        logits = {role: end.head.logits(getattr(few, role).columns) for role in ("calibrate", "select")}
        both = torch.cat([logits["calibrate"], logits["select"]])
        labels = torch.cat([few.calibrate.labels, few.select.labels])
        assert end.head.temperature == pytest.approx(self.most_probable(both, labels), rel=2e-4)
        assert (end.chosen.temperature, end.head.layers.spec.rows) == (end.head.temperature, "both")
        folds = folds_of(few.select.labels, None)
        for fold in range(5):
            seen = torch.cat([torch.ones(12, dtype=torch.bool), folds != fold])
            own = self.most_probable(both[seen], labels[seen])
            wanted = (logits["select"][folds == fold] / own).log_softmax(1)
            assert torch.allclose(end.held_out.log_p[folds == fold], wanted, atol=1e-3)

    def test_a_handful_of_rows_gives_none(self, long_tail):
        none = replace(long_tail, calibrate=first_rows(long_tail.calibrate, 3), select=first_rows(long_tail.select, 8))
        end = finished(none, AUTO)
        assert (end.head.temperature, end.chosen.temperature) == (1.0, 1.0)
        x = none.select.columns
        assert torch.equal(end.head.log_probabilities(x), end.head.logits(x).log_softmax(1))
        (note,) = posthoc_notes(run(AUTO), torch.zeros(11, dtype=torch.int64))
        assert note.startswith("no temperature is fitted, so probabilities stay uncalibrated: there are only 11 ")

    def test_rows_that_happen_to_be_right_do_not_drive_it_to_a_bound(self):
        logits, labels = 2 * torch.eye(4).repeat(6, 1), torch.arange(4).repeat(6)
        assert fit_temperature(logits, labels) < 0.06
        fitted = Layers.of(PosthocSpec(), NAMES).fitted_to(Calibration(logits, labels))
        assert fitted.temperature == pytest.approx(self.most_probable(logits, labels), rel=2e-4)
        assert 0.3 < fitted.temperature < 0.7

    def test_it_can_be_left_out(self, long_tail):
        assert finished(long_tail, {"calibration": {"kind": "none"}}).head.temperature == 1.0


def first_rows(part, count):
    return Part({name: x[:count] for name, x in part.columns.items()}, part.labels[:count])
