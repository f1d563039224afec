"""Tests that hold for every calibrator."""

import pytest
import torch

from frostbench.heads.posthoc.calibrators.isotonic import Isotonic
from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.calibrators.none import NoCalibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.calibrators.vector import Vector

SPECS = [NoCalibration(), Temperature(), Vector(), Matrix(), Isotonic(), Isotonic(form="top_label")]
FITTED = SPECS[1:]
IDS = [f"{spec.kind}{getattr(spec, 'form', '')}" for spec in SPECS]


def rows(number=300, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn(number, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    return 2 * true + torch.tensor([0.0, 0.5, -0.5, 1.0][:classes]).double(), labels


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_probabilities_sum_to_one(spec):
    logits, labels = rows()
    found = spec.apply(logits, spec.fit(logits, labels)).exp()
    assert found.sum(1).tolist() == pytest.approx([1] * len(found))


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_the_order_of_rows_and_of_classes_does_not_matter(spec):
    logits, labels = rows()
    wanted = spec.apply(logits, spec.fit(logits, labels))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    assert torch.allclose(spec.apply(logits, spec.fit(logits[order], labels[order])), wanted, atol=1e-6)
    classes = torch.tensor([2, 0, 3, 1])
    moved = spec.fit(logits[:, classes], classes.argsort()[labels])
    assert torch.allclose(spec.apply(logits[:, classes], moved), wanted[:, classes], atol=1e-6)


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_weights_act_like_repeated_rows(spec):
    logits, labels = rows()
    times = torch.arange(len(labels)) % 3
    kept = times > 0
    weighted = spec.fit(logits[kept], labels[kept], times[kept])
    repeated = spec.fit(logits.repeat_interleave(times, 0), labels.repeat_interleave(times))
    assert torch.allclose(spec.apply(logits, weighted), spec.apply(logits, repeated), atol=1e-6)
    assert spec.kind == "none" or not torch.allclose(
        spec.apply(logits, weighted), spec.apply(logits, spec.fit(logits, labels)), atol=1e-3
    )


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_an_absent_class_keeps_probability_zero_and_changes_nothing(spec):
    logits, labels = rows()
    wider = torch.cat([logits[:, :2], torch.full((len(logits), 1), -torch.inf), logits[:, 2:]], 1)
    places = torch.tensor([0, 1, 3, 4])
    found = spec.apply(wider, spec.fit(wider, places[labels]))
    assert (found[:, 2] == -torch.inf).all()
    assert torch.allclose(found[:, places], spec.apply(logits, spec.fit(logits, labels)), atol=1e-6)


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_a_class_that_is_impossible_for_some_rows(spec):
    """As in cross-validation, where a fold's head may lack a class."""
    logits, labels = rows()
    logits[:50, 3] = -torch.inf
    kept = (labels != 3) | (torch.arange(len(labels)) >= 50)
    found = spec.apply(logits, spec.fit(logits[kept], labels[kept]))
    assert (found[:50, 3] == -torch.inf).all()
    assert found[:50, :3].isfinite().all()
    assert found[50:].isfinite().all()
    assert found.exp().sum(1).tolist() == pytest.approx([1] * len(found))


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_single_precision_goes_in_and_out(spec):
    logits, labels = rows()
    numbers = spec.fit(logits.float(), labels)
    found = spec.apply(logits.float(), numbers)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), spec.apply(logits.float().double(), numbers), atol=1e-5)


@pytest.mark.parametrize("spec", FITTED, ids=IDS[1:])
def test_it_raises_the_likelihood_of_its_rows(spec):
    logits, labels = rows(3000)
    own = [
        x.gather(1, labels[:, None]).mean()
        for x in (logits.log_softmax(1), spec.apply(logits, spec.fit(logits, labels)))
    ]
    assert own[1] > own[0] + 0.01


@pytest.mark.parametrize("spec", FITTED, ids=IDS[1:])
@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(0, 3), [], "Calibration rows are required for .*, got none"),
        (torch.tensor([[0.0, float("nan")]]), [0], "must be finite, got NaN"),
        (torch.tensor([[0.0, -torch.inf]]), [1], "Every calibration label must belong to a trained class"),
    ],
)
def test_invalid_rows_are_rejected(spec, logits, labels, message):
    with pytest.raises(ValueError, match=message):
        spec.fit(logits, torch.tensor(labels, dtype=torch.int64))
