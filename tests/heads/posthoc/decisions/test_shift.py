import pytest
import torch

from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.decisions.shift import WantedShift
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec

NAMES = ("ash", "beech", "cedar")


def rows(number=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = 1.5 * torch.randn(number, 3, generator=generator, dtype=torch.float64)
    scores += torch.tensor([1.0, 0.0, -1.5])
    labels = torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)
    return scores.log_softmax(1), labels


def fitted(log_p, labels, weight=None, **fields):
    weight = torch.ones(len(labels), dtype=torch.float64) if weight is None else weight
    return WantedShift(**fields).fit(log_p, labels, weight, NAMES)


def recall(log_p, labels, own, shift):
    return float(((log_p + shift).argmax(1)[labels == own] == own).double().mean())


def precision(log_p, labels, own, shift):
    taken = (log_p + shift).argmax(1) == own
    return float((labels[taken] == own).double().mean())


@pytest.mark.parametrize("target", [0.5, 0.8, 0.95, 1.0])
def test_a_required_recall_is_reached_with_the_smallest_shift(target):
    log_p, labels = rows()
    shift = fitted(log_p, labels, targets={"cedar": target})
    assert shift[:2].tolist() == [0, 0]
    assert shift[2] > 0
    assert recall(log_p, labels, 2, shift) >= target
    less = shift - torch.tensor([0, 0, 0.0021])
    assert recall(log_p, labels, 2, less) < target


@pytest.mark.parametrize("target", [0.8, 0.85])
def test_a_required_precision_is_reached_with_the_smallest_shift(target):
    log_p, labels = rows()
    assert precision(log_p, labels, 0, 0) < target
    shift = fitted(log_p, labels, metric="precision", targets={"ash": target})
    assert precision(log_p, labels, 0, shift) >= target
    size = abs(float(shift[0]))
    for part in (0.2, 0.5, 0.8, 0.95):
        assert all(precision(log_p, labels, 0, torch.tensor([s * part * size, 0, 0])) < target for s in (-1, 1))


def test_a_target_already_reached_needs_no_shift():
    log_p, labels = rows()
    assert fitted(log_p, labels, targets={"ash": 0.1, "beech": 0.1}).tolist() == [0, 0, 0]


def test_several_classes_are_adjusted_in_turn_until_all_reach_their_target():
    log_p, labels = rows()
    shift = fitted(log_p, labels, targets={"beech": 0.75, "cedar": 0.75})
    assert recall(log_p, labels, 1, shift) >= 0.75
    assert recall(log_p, labels, 2, shift) >= 0.75
    assert shift[0] == 0


def test_an_unreachable_target_is_rejected_with_the_best_value():
    log_p = torch.tensor([[0.6, 0.4], [0.7, 0.3], [0.9, 0.1]], dtype=torch.float64).log()
    labels = torch.tensor([1, 0, 0])
    spec = WantedShift(metric="precision", targets={"ash": 0.9})
    one = torch.ones(3, dtype=torch.float64)
    # ash is right where only the surer rows go to it.
    assert spec.fit(log_p, labels, one, NAMES[:2])[0] < 0
    swapped = torch.tensor([0, 0, 1])
    with pytest.raises(
        ValueError, match=r"for class 'ash' that is 0\.9 and the best value on the calibration rows is 0\.6667"
    ):
        spec.fit(log_p, swapped, one, NAMES[:2])


def test_classes_that_never_agree_are_rejected():
    log_p = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64).log()
    with pytest.raises(ValueError, match="2 classes keep taking rows from each other"):
        WantedShift(targets={"ash": 1, "beech": 1}).fit(log_p, torch.tensor([0, 1]), torch.ones(2).double(), NAMES[:2])


def test_a_class_without_rows_is_rejected():
    log_p, labels = rows()
    kept = labels != 2
    with pytest.raises(ValueError, match="but class 'cedar' has none"):
        fitted(log_p[kept], labels[kept], targets={"cedar": 0.5})


def test_weights_count_in_a_precision():
    log_p, labels = rows(200)
    times = torch.arange(200) % 3
    kept = times > 0
    found = fitted(log_p[kept], labels[kept], times[kept].double(), metric="precision", targets={"beech": 0.6})
    repeated = fitted(
        log_p.repeat_interleave(times, 0), labels.repeat_interleave(times), metric="precision", targets={"beech": 0.6}
    )
    assert torch.allclose(found, repeated)
    assert not torch.allclose(found, fitted(log_p, labels, metric="precision", targets={"beech": 0.6}))


def test_an_impossible_class_is_never_predicted():
    log_p, labels = rows()
    log_p[:40, 2] = -torch.inf
    kept = (labels != 2) | (torch.arange(len(labels)) >= 40)
    shift = fitted(log_p[kept], labels[kept], targets={"cedar": 1})
    assert ((log_p + shift).argmax(1)[:40] != 2).all()
    assert recall(log_p[kept], labels[kept], 2, shift) == 1


def test_a_given_shift_only_changes_decisions():
    spec = PosthocSpec.model_validate({"shift": {"kind": "given", "logits": {"beech": 1.0}}})
    layers = Layers.of(spec, NAMES)
    log_p = torch.tensor([[0.6, 0.3, 0.1], [0.8, 0.1, 0.1]]).log()
    # log .3 + 1 is above log .6, and log .1 + 1 below log .8.
    assert layers.decide(log_p).tolist() == [1, 0]
    assert torch.equal(layers.log_probabilities(log_p), log_p.log_softmax(1))
    assert layers.without_decisions().decide(log_p).tolist() == [0, 0]


def test_a_shift_comes_after_the_thresholds():
    log_p, labels = rows()
    tuned = {"calibration": {"kind": "none"}, "thresholds": {"kind": "coordinate_ascent"}}
    wanted = {"shift": {"kind": "wanted", "targets": {"cedar": 0.97}}}
    both = Layers.of(PosthocSpec.model_validate(tuned | wanted), NAMES).fitted_to(Calibration(log_p, labels))
    alone = Layers.of(PosthocSpec.model_validate(tuned), NAMES).fitted_to(Calibration(log_p, labels))
    moved = both.bias - alone.bias
    assert moved[:2].tolist() == [0, 0]
    assert moved[2] > 0
    assert recall(log_p, labels, 2, both.bias) >= 0.97
