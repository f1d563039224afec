"""Properties of classifiers, compared with their behaviour."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.head import Closed, Stepped

PLUGIN, FILED = "external", "zero_shot"
STEPPED = [kind for kind in get_args(Stepped) if kind.model_fields["kind"].default != PLUGIN]
FITTED = [kind for kind in get_args(Closed) if not kind.minimises_loss]
COSINES = [kind for kind in STEPPED if kind.is_cosine]
CLASSES, DIM = 5, 6


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def some_rows():
    labels = torch.arange(CLASSES).repeat_interleave(torch.tensor([40, 20, 10, 6, 4]))
    centres = 2 * torch.randn(CLASSES, DIM, generator=seeded(1))
    x = centres[labels] + torch.randn(len(labels), DIM, generator=seeded(2))
    return Rows(x, labels, torch.ones(len(labels), dtype=torch.float64), CLASSES)


def by_class(rows):
    """The rows with very different class weights."""
    weight = torch.tensor([1.0, 2, 4, 8, 16], dtype=torch.float64)[rows.labels]
    return replace(rows, weight=weight / weight.mean())


def named(kinds):
    return [pytest.param(kind, id=kind.__name__) for kind in kinds]


@pytest.mark.parametrize("kind", named([*STEPPED, *get_args(Closed)]))
def test_a_kind_is_either_built_or_fitted(kind):
    classifier = kind()
    if classifier.minimises_loss:
        assert classifier.build(DIM, CLASSES, seeded())(torch.ones(2, DIM)).shape == (2, CLASSES)
        with pytest.raises(TypeError, match="so it cannot be fitted to rows alone"):
            classifier.fit(some_rows())
    else:
        assert classifier.is_closed_form
        with pytest.raises(TypeError, match="is computed from training rows, so it must be fitted"):
            classifier.build(DIM, CLASSES, seeded())


@pytest.mark.parametrize("classes", [2, 10, 10_000])
@pytest.mark.parametrize("kind", named(COSINES))
def test_no_logit_of_a_cosine_exceeds_its_bound(kind, classes):
    for classifier in (kind(), kind(scale=3.0)):
        layer = classifier.build(DIM, classes, seeded())
        weights = layer.weight.detach()[:, 0]
        assert layer(weights[:50]).abs().max() <= classifier.logit_bound * (1 + 1e-6)
        assert layer.weight.shape[1] == classifier.centers_per_class
    assert kind(scale=3.0).logit_bound == 3


def test_the_other_kinds_have_no_logit_bound():
    assert {kind().logit_bound for kind in (*STEPPED, *get_args(Closed)) if not kind.is_cosine} == {float("inf")}


@pytest.mark.parametrize("kind", named([kind for kind in STEPPED if kind.sets_margin]))
def test_a_margin_lowers_the_logit_of_the_true_class_and_a_zero_margin_does_not(kind):
    name = "max_margin" if "max_margin" in kind.model_fields else "margin"
    logits, own, counts = 3 * torch.eye(CLASSES), torch.arange(CLASSES), torch.tensor([40, 20, 10, 6, 4])
    with_margin, without = kind(), kind(**{name: 0})
    changed = with_margin.margined(logits, own, counts, 10.0, 1.0) - logits
    assert (changed.diagonal() < 0).all()
    assert torch.equal(without.margined(logits, own, counts, 10.0, 1.0), logits)
    assert (with_margin.is_marginless, without.is_marginless) == (False, True)
    assert with_margin.favours_rare == bool(changed.diagonal()[-1] < changed.diagonal()[0])
    assert not without.favours_rare


@pytest.mark.parametrize("kind", named(FITTED))
def test_logits_carry_a_prior_if_the_classifier_knows_it(kind):
    log_prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log()
    is_uniform = torch.allclose(kind().carried(log_prior).exp(), torch.full((3,), 1 / 3, dtype=torch.float64))
    assert kind().knows_prior == (not is_uniform)


CHOICES = [
    *((kind, {}) for kind in FITTED if kind.model_fields["kind"].default != FILED),
    *((kind, {"center": False}) for kind in FITTED if "center" in kind.model_fields),
]


@pytest.mark.parametrize(
    ("kind", "options"), [pytest.param(*each, id=f"{each[0].__name__} {each[1]}") for each in CHOICES]
)
def test_class_weights_change_classifiers_with_weighs_classes(kind, options):
    classifier, rows = kind(**options), some_rows()
    x = torch.randn(30, DIM, generator=seeded(3))
    plain, weighted = (classifier.fit(each)(x) for each in (rows, by_class(rows)))
    assert classifier.weighs_classes == (not torch.allclose(plain, weighted, atol=1e-4))
