import pytest
import torch

from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import cross_fitted, folds_of
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec, fit_temperature

NAMES = ("ash", "beech", "cedar")


def rows(number=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(number, 3, generator=generator)
    return logits, torch.multinomial((logits / 3).softmax(1), 1, generator=generator).squeeze(1)


def layers_of(**posthoc):
    return Layers.of(PosthocSpec.model_validate(posthoc), NAMES)


def test_each_row_gets_the_temperature_of_other_folds():
    logits, labels = rows()
    folds = torch.arange(60) % 3
    found = cross_fitted(layers_of(calibration={"kind": "temperature"}), logits, labels, folds)
    for fold in range(3):
        held = folds == fold
        own = fit_temperature(logits[~held], labels[~held])
        assert torch.allclose(found.log_p[held], (logits[held] / own).log_softmax(1))
    assert torch.equal(found.predicted, logits.argmax(1))


def test_decisions_are_those_of_other_folds():
    logits, labels = rows()
    folds = torch.arange(60) % 2
    layers = layers_of(shift={"kind": "wanted", "targets": {"ash": 0.95}})
    found = cross_fitted(layers, logits, labels, folds)
    for fold in (0, 1):
        held = folds == fold
        others = layers.fitted_to(Calibration(logits[~held], labels[~held]))
        assert torch.equal(found.predicted[held], (found.log_p[held] + others.bias).argmax(1))
    assert not torch.equal(found.predicted, found.log_p.argmax(1))


@pytest.mark.parametrize("kind", ["temperature", "vector", "matrix", "isotonic"])
def test_a_row_does_not_influence_its_own_prediction(kind):
    logits, labels = rows()
    folds = torch.arange(60) % 3
    tuned = {"kind": "coordinate_ascent", "metric": "macro_f1"}
    layers = layers_of(calibration={"kind": kind}, thresholds=tuned)
    before = cross_fitted(layers, logits, labels, folds)
    other = torch.where(folds == 1, (labels + 1) % 3, labels)
    after = cross_fitted(layers, logits, other, folds)
    own = folds == 1
    assert torch.equal(before.log_p[own], after.log_p[own])
    assert torch.equal(before.predicted[own], after.predicted[own])
    assert not torch.equal(before.log_p[~own], after.log_p[~own])


def test_rows_of_untrained_classes_are_predicted_but_not_fitted():
    logits, labels = rows()
    logits[:, 2] = -torch.inf
    folds = torch.arange(60) % 3
    found = cross_fitted(layers_of(calibration={"kind": "vector"}), logits, labels, folds)
    kept = labels < 2
    alone = cross_fitted(layers_of(calibration={"kind": "vector"}), logits[kept], labels[kept], folds[kept])
    assert torch.equal(found.log_p[kept], alone.log_p)
    assert (found.predicted < 2).all()


def test_an_unreachable_target_without_a_fold_names_the_fold():
    logits, labels = rows()
    folds = (labels != 2).long()
    with pytest.raises(ValueError, match="predict fold 1 must be fitted without it, but: The recall of a class"):
        cross_fitted(layers_of(shift={"kind": "wanted", "targets": {"cedar": 0.9}}), logits, labels, folds)


def test_folds_keep_groups_together_and_have_each_class():
    labels = torch.arange(4).repeat_interleave(30)
    groups = torch.arange(120) // 3
    folds = folds_of(labels, groups)
    assert all(len(set(folds[groups == group].tolist())) == 1 for group in groups.unique().tolist())
    assert torch.bincount(folds).tolist() == [24] * 5
    for fold in range(5):
        assert torch.bincount(labels[folds == fold], minlength=4).tolist() == [6] * 4
    assert torch.equal(folds, folds_of(labels, groups + 100))


def test_there_are_at_most_as_many_folds_as_groups_and_at_least_two():
    assert folds_of(torch.tensor([0, 0, 1]), torch.tensor([4, 4, 9])).tolist() == [0, 0, 1]
    assert folds_of(torch.tensor([0, 1, 1]), None).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="at least 2 groups of rows, got 1"):
        folds_of(torch.tensor([0, 1]), torch.tensor([3, 3]))
