import pytest
import torch

from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import (
    ConstantSchedule,
    DeferredSchedule,
    EffectiveWeight,
    InverseWeight,
    NoWeight,
    PowerWeight,
    RampSchedule,
    SqrtInverseWeight,
)

COUNTS = torch.tensor([900, 90, 10])


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (NoWeight(), [1, 1, 1]),
        (InverseWeight(), [0.0297029703, 0.2970297030, 2.6732673267]),
        (SqrtInverseWeight(), [0.2197945404, 0.6950513649, 2.0851540947]),
        (EffectiveWeight(beta=0.9), [0.8485564080, 0.8486210537, 1.3028225384]),
        (EffectiveWeight(beta=0.99), [0.2283665683, 0.3835912956, 2.3880421361]),
        (EffectiveWeight(beta=0.999), [0.0444295556, 0.3062825263, 2.6492879181]),
        (EffectiveWeight(beta=0.9999), [0.0310180275, 0.2979679022, 2.6710140704]),
        (EffectiveWeight(beta_rule="auto"), [0.0444295556, 0.3062825263, 2.6492879181]),
        (EffectiveWeight(beta=0), [1, 1, 1]),
        (EffectiveWeight(beta_rule="ratio", ratio=59.62895374), [0.0444295556, 0.3062825263, 2.6492879181]),
        (EffectiveWeight(beta_rule="ratio", ratio=1), [1, 1, 1]),
        (EffectiveWeight(beta_rule="ratio", ratio=90), [0.0297029703, 0.2970297030, 2.6732673267]),
        (EffectiveWeight(beta_rule="ratio", ratio=1e6), [0.0297029703, 0.2970297030, 2.6732673267]),
        (PowerWeight(power=0), [1, 1, 1]),
        (PowerWeight(), [0.2197945404, 0.6950513649, 2.0851540947]),
        (PowerWeight(power=1), [0.0297029703, 0.2970297030, 2.6732673267]),
    ],
)
def test_weights_match_the_vectors(rule, wanted):
    assert rule(COUNTS).tolist() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    "rule",
    [
        NoWeight(),
        InverseWeight(),
        SqrtInverseWeight(),
        PowerWeight(power=0.7),
        EffectiveWeight(beta=0),
        EffectiveWeight(beta=0.999),
        EffectiveWeight(beta_rule="ratio", ratio=20),
    ],
)
def test_absent_classes_get_no_weight_and_present_ones_keep_mean_one(rule):
    weight = rule(torch.tensor([900, 90, 10, 0]))
    assert weight[3] == 0
    assert weight[:3].tolist() == pytest.approx(rule(COUNTS).tolist(), abs=1e-12)


def test_an_absent_class_with_inverse_weights_matches_the_vector():
    wanted = [0.0297029703, 0.297029703, 2.6732673267, 0]
    assert InverseWeight()(torch.tensor([900, 90, 10, 0])).tolist() == pytest.approx(wanted, abs=1e-9)


def test_effective_numbers_stay_exact_where_beta_to_the_n_rounds_to_one():
    weight = EffectiveWeight(beta=1 - 1e-12)(torch.tensor([1, 2]))
    assert (weight[0] / weight[1]).item() == pytest.approx(2, rel=1e-9)


@pytest.mark.parametrize("rule", [NoWeight(), *(EffectiveWeight(beta_rule=r) for r in ("fixed", "auto", "ratio"))])
def test_no_rows_at_all_is_refused(rule):
    with pytest.raises(ValueError, match="all counts are 0"):
        rule(torch.tensor([0, 0]))


def test_the_effective_prior_is_share_times_weight():
    labels = torch.arange(3).repeat_interleave(COUNTS)
    statistics = class_statistics_of(labels, 3, EffectiveWeight(beta=0.999))
    wanted = [0.4251862383, 0.2931092002, 0.2817045615]
    assert statistics.log_prior_effective.exp().tolist() == pytest.approx(wanted, abs=1e-9)
    assert statistics.log_prior_raw.exp().tolist() == pytest.approx([0.9, 0.09, 0.01], abs=1e-12)


def test_labels_outside_the_classes_are_refused():
    with pytest.raises(ValueError, match=r"labels must lie in 0..C-1 for the 3 classes .* got 0\.\.3"):
        class_statistics_of(torch.tensor([0, 3]), 3, NoWeight())


@pytest.mark.parametrize("ratio", [1.0001, 1.5, 10.463, 50, 86.11, 89.999])
@pytest.mark.parametrize("counts", [[900, 90, 10], [9_000_000, 1000, 100_000]])
def test_the_ratio_rule_gives_its_ratio(ratio, counts):
    weight = EffectiveWeight(beta_rule="ratio", ratio=ratio)(torch.tensor(counts))
    assert (weight.max() / weight.min()).item() == pytest.approx(ratio, rel=1e-9)
    assert weight.mean().item() == pytest.approx(1)


def test_the_ratio_rule_leaves_equal_classes_and_a_single_one_alike():
    for counts in ([7, 7, 0], [1, 0, 0]):
        weight = EffectiveWeight(beta_rule="ratio")(torch.tensor(counts))
        assert weight.tolist() == pytest.approx([float(n > 0) for n in counts])


@pytest.mark.parametrize(
    ("schedule", "strengths"),
    [
        (ConstantSchedule(), {0: 1, 0.5: 1, 1: 1}),
        (DeferredSchedule(), {0: 0, 0.79: 0, 0.8: 1, 1: 1}),
        (DeferredSchedule(start=0), {0: 1, 1: 1}),
        (RampSchedule(start=0.2, end=0.6), {0: 0, 0.2: 0, 0.3: 0.25, 0.4: 0.5, 0.6: 1, 1: 1}),
    ],
)
def test_schedules_move_weights_from_all_alike_and_keep_their_mean(schedule, strengths):
    weight = torch.tensor([0.1, 0.4, 2.5], dtype=torch.float64)
    for progress, strength in strengths.items():
        found = schedule(weight, progress)
        wanted = [1 - 0.9 * strength, 1 - 0.6 * strength, 1 + 1.5 * strength]
        assert found.tolist() == pytest.approx(wanted, abs=1e-12)
        assert found.mean().item() == pytest.approx(1, abs=1e-12)
        assert found.dtype == torch.float64


def test_a_ramp_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match=r"got start=0\.8 and end=0\.8"):
        RampSchedule(start=0.8, end=0.8)
