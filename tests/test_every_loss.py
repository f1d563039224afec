"""Every loss, weight, sampler, augmentation and second stage keeps what is asked of all; the list is the Specs'."""

import pytest
import torch
from catalogue import BASE, CASES, MLP, data, is_kind, merged, trained
from conformance import (
    HARD,
    IN_ORDER_OF_CLASSES,
    ROWS,
    check_hard_data,
    check_it_learns,
    check_permuted_classes,
    check_round_trips,
    check_shapes_and_absent_classes,
    check_the_same_twice,
)

from frostbench.training.run import RunSpec

LOSSES = [name for name in CASES if not name.startswith("head")]
KINDS = [name for name in LOSSES if is_kind(name)]
OF_THREE_CLASSES = ("train.loss.point=cpc",)
"""Cases that are refused for fewer."""


@pytest.mark.parametrize("name", LOSSES)
def test_shapes_and_absent_classes(name):
    check_shapes_and_absent_classes(name)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_twice(name):
    check_the_same_twice(name)


@pytest.mark.parametrize("name", LOSSES)
def test_round_trips(name, tmp_path):
    check_round_trips(name, tmp_path)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in OF_THREE_CLASSES])
def test_few_rows_of_two_classes(name):
    check_hard_data(name, HARD["tiny"])


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_are_all_alike(name):
    check_hard_data(name, HARD["constant"])


@pytest.mark.parametrize("name", [name for name in KINDS if not name.startswith(IN_ORDER_OF_CLASSES)])
def test_permuted_classes(name):
    check_permuted_classes(name)


@pytest.mark.parametrize("name", [name for name in KINDS if not name.endswith("zero_shot")])
def test_it_learns(name):
    """All but a refit with zero-shot, which reads no rows."""
    check_it_learns(name)


def on(**options):
    return {"train": options}


def loss(**options):
    return {"train": {"loss": options}}


UNEVEN = loss(class_weight={"kind": "inverse"})
NEUTRAL = {
    "smoothing": (loss(smoothing={"epsilon": 0, "spread": "prior"}), UNEVEN),
    "smoothing to the others": (loss(smoothing={"epsilon": 0, "spread": "others"}), {}),
    "adjustment": (loss(logit_adjustment={"tau": 0, "prior": "raw"}), UNEVEN),
    "focal": (loss(point={"kind": "focal", "gamma": 0}), {}),
    "power": (loss(class_weight={"kind": "power", "power": 0}), {}),
    "effective": (loss(class_weight={"kind": "effective", "beta": 0}), {}),
    "mining": (loss(hardmine={"keep": 1, "warm": 0.5, "quota": 9, "noise_guard": True}), {}),
    "mining before it begins": (loss(hardmine={"keep": 0.5, "warm": 0.99}), {}),
    "weights without a schedule to follow": (loss(weight_schedule={"kind": "ramp"}), {}),
    "weights that act from the start": (loss(weight_schedule={"kind": "deferred", "start": 0}), UNEVEN),
    "supcon": (loss(supcon={"weight": 0, "temperature": 1, "projector": {"kind": "mlp"}}), MLP),
    "bcl": (loss(bcl={"weight": 0, "temperature": 1}), MLP),
    "center": (loss(center={"weight": 0, "repulsion": 1, "space": "plain"}), MLP),
    "lade": (loss(lade={"weight": 0, "penalty": 1}), {}),
    "mmce": (loss(mmce={"weight": 0, "form": "weighted", "width": 1}), {}),
    "mdca": (loss(mdca={"weight": 0}), {}),
    "mbls": (loss(point={"kind": "mbls", "strength": 0, "margin": 1}), {}),
    "mbls whose margin is wider than any gap": (loss(point={"kind": "mbls", "margin": 1000}), {}),
    "acls": (loss(point={"kind": "acls", "strength": 0, "margin": 1}), {}),
    "ecp": (loss(point={"kind": "ecp", "strength": 0}), {}),
    "cpc": (loss(point={"kind": "cpc", "discrimination": 0, "exclusion": 0}), {}),
    "dual focal": (loss(point={"kind": "dual_focal", "gamma": 0}), {}),
    "augment": (on(augment={"noise": 0, "channel_scale": 0, "gain": 0}), {}),
    "brightness of no row": (on(frofa={"kind": "brightness", "probability": 0}), {}),
    "contrast of no row": (on(frofa={"kind": "contrast", "probability": 0}), {}),
    "posterize of no row": (on(frofa={"kind": "posterize", "probability": 0}), {}),
    "brightness of no width": (on(frofa={"kind": "c2_dataset", "width": 0}), {}),
    "mixup": (on(mixup={"alpha": 0, "where": "hidden", "pairing": "head_tail", "label_rule": "remix"}), MLP),
    "average": (on(ema=0), {}),
}


def state(*trees):
    (end,) = trained([RunSpec.model_validate(merged(BASE, *trees))], ROWS)
    return end.head.head.state_dict()


@pytest.mark.parametrize("pair", NEUTRAL.values(), ids=NEUTRAL)
def test_a_neutral_value_is_the_plain_result_bit_for_bit(pair):
    option, plain = pair
    found, wanted = state(plain, option), state(plain)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_classes_of_one_size_are_left_as_they_are():
    """Made-up rows, weights and samplers by class size change nothing about what is equal already."""
    even = data(torch.float32, (12, 12, 12))
    plain = trained([RunSpec.model_validate(BASE)], even)[0].head.head.state_dict()
    options = [on(oversample={"kind": kind}) for kind in ("smote", "gaussian")]
    options += [loss(class_weight={"kind": kind}) for kind in ("inverse", "sqrt_inverse", "effective")]
    options += [loss(class_weight={"kind": "inverse"}, count="groups")]
    for option in options:
        found = trained([RunSpec.model_validate(merged(BASE, option))], even)[0].head.head.state_dict()
        assert all(torch.allclose(found[key], plain[key], rtol=1e-5, atol=1e-6) for key in plain), option
