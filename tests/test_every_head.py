"""Every body and classifier keeps what is asked of all heads; the list of them comes from the Specs."""

import pytest
import torch
from catalogue import BASE, CASES, MLP, is_kind, merged, trained
from conformance import (
    HARD,
    ROWS,
    check_hard_data,
    check_it_learns,
    check_permuted_classes,
    check_round_trips,
    check_shapes_and_absent_classes,
    check_the_same_twice,
    is_stepped,
)

from frostbench.training.run import RunSpec

HEADS = [name for name in CASES if name.startswith("head")]
KINDS = [name for name in HEADS if is_kind(name)]


@pytest.mark.parametrize("name", HEADS)
def test_shapes_and_absent_classes(name):
    check_shapes_and_absent_classes(name)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_twice(name):
    check_the_same_twice(name)


@pytest.mark.parametrize("name", HEADS)
def test_round_trips(name, tmp_path):
    check_round_trips(name, tmp_path)


@pytest.mark.parametrize("rows", HARD)
@pytest.mark.parametrize("name", HEADS)
def test_hard_data(name, rows):
    check_hard_data(name, HARD[rows])


@pytest.mark.parametrize("name", HEADS)
def test_permuted_classes(name):
    check_permuted_classes(name)


@pytest.mark.parametrize("name", [name for name in KINDS if not name.endswith("zero_shot")])
def test_it_learns(name):
    """All but zero-shot, which reads no rows."""
    check_it_learns(name)


STEPPED_KINDS = [name for name in KINDS if name.startswith("head.classifier=") and is_stepped(name)]


@pytest.mark.parametrize("name", STEPPED_KINDS)
def test_every_stepped_classifier_stands_on_a_body(name):
    spec = RunSpec.model_validate(merged(CASES[name].model_dump(), MLP))
    first, again = (trained([spec], ROWS)[0].head for _ in range(2))
    a, b = (head.logits(ROWS.select.columns) for head in (first, again))
    assert torch.equal(a, b)
    assert a[:, :4].isfinite().all()
    assert first.head.hidden(ROWS.select.columns["x"]).shape == (26, 6)


NEUTRAL = {
    "arcface": ({"kind": "arcface", "margin": 0, "scale": 12}, {"kind": "cosine", "scale": 12}),
    "arcface easy": (
        {"kind": "arcface", "margin": 0, "scale": 12, "easy_margin": True},
        {"kind": "cosine", "scale": 12},
    ),
    "cosface": ({"kind": "cosface", "margin": 0, "scale": 12}, {"kind": "cosine", "scale": 12}),
    "ldam": ({"kind": "ldam", "max_margin": 0, "scale": 12}, {"kind": "cosine", "scale": 12}),
}


@pytest.mark.parametrize("pair", NEUTRAL.values(), ids=NEUTRAL)
def test_a_margin_of_0_is_the_plain_cosine_bit_for_bit(pair):
    heads = [trained([RunSpec.model_validate(merged(BASE, {"head": {"classifier": c}}))], ROWS)[0].head for c in pair]
    first, second = (head.head.state_dict() for head in heads)
    assert all(torch.equal(first[key], second[key]) for key in second)


def test_attention_over_one_token_is_its_value_projected():
    """Of one token the attention is 1, whatever the query."""
    tree = merged(BASE, {"columns": ["tokens"], "head": {"body": {"kind": "attention_pool", "heads": 4}}})
    pool = trained([RunSpec.model_validate(tree)], ROWS)[0].head.head.body
    token = ROWS.select.columns["tokens"][:, :1]
    wanted = pool.out(pool.value(token[:, 0]))
    assert torch.allclose(pool(token), wanted, atol=1e-5)
