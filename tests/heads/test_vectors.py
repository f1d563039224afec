"""Vectors to predict from: every kind of head rejects rows that are not finite, and names the first."""

import numpy as np
import pytest
import torch

from frostbench.heads.bundle.export import load, save
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.trained import Priors, TrainedHead, view_column
from frostbench.heads.vectors import finite_rows

NAMES = ("ash", "beech", "cedar")
POOL = {"body": {"kind": "attention_pool", "heads": 2}}
MESSAGE = "1 of 4 rows holds NaN or infinity, first row 2"


def head_of(tree=(), columns=("a",), dim=4, views=()):
    spec, counts = HeadSpec.model_validate(dict(tree)), torch.tensor([2, 2, 2])
    shape = (2, 3, dim) if "body" in dict(tree) else (2, dim)
    share = counts.double() / 6
    return TrainedHead(
        spec=spec,
        head=spec.build(torch.zeros(shape), 3, torch.Generator()).eval(),
        columns=columns,
        class_names=NAMES,
        priors=Priors(counts, share, share, share),
        shift=torch.zeros(3),
        layers=Layers(class_names=NAMES),
        views={name: {} for name in views},
    )


def broken(x, value):
    x = x.clone()
    x[2].flatten()[1] = value
    return x


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("kind", ["linear", "cosine", "ensemble", "tokens", "views", "columns", "bundle"])
def test_every_head_rejects_rows_that_are_not_finite(kind, value, tmp_path):
    x = torch.rand(4, 4)
    head, good, bad = head_of(), {"a": x}, {"a": broken(x, value)}
    if kind == "cosine":
        head = head_of({"classifier": {"kind": "cosine"}})
    elif kind == "ensemble":
        head = Ensemble((head, head_of(columns=("b",))))
        good, bad = {"a": x, "b": x}, {"a": x, "b": broken(x, value)}
    elif kind == "tokens":
        head, x = head_of(POOL), torch.rand(4, 3, 4)
        good, bad = {"a": x}, {"a": broken(x, value)}
    elif kind == "views":
        head, seen = head_of(views=("flip#0",)), view_column("a", "flip#0")
        good, bad = {"a": x, seen: x}, {"a": x, seen: broken(x, value)}
    elif kind == "columns":
        head = head_of(columns=("a", "b"))
        good, bad = {"a": x[:, :2], "b": x[:, 2:]}, {"a": x[:, :2], "b": broken(x[:, 2:], value)}
    elif kind == "bundle":
        save(head, tmp_path / "bundle")
        head = load(tmp_path / "bundle").head
    assert head.log_probabilities(good).isfinite().all()
    for predict in (head.logits, head.log_probabilities):
        with pytest.raises(ValueError, match=MESSAGE):
            predict(bad)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({"a": torch.ones(3, 5)}, r"trained on 4 dimensions, got \{'a': \[3, 5\]\}"),
        ({"a": torch.ones(4)}, r"Pass x\[None\] for a single vector"),
        ({"a": torch.ones(3, 2, 4)}, r"arrays \[N, D\] with the same rows, got \{'a': \[3, 2, 4\]\}"),
        ({"b": torch.ones(3, 4)}, r"\['a'\] are not among \['b'\]"),
    ],
)
def test_other_vectors_than_those_of_training_are_rejected(vectors, message):
    with pytest.raises(ValueError, match=message):
        head_of().log_probabilities(vectors)


def test_tokens_and_columns_are_checked_as_well():
    with pytest.raises(ValueError, match=r"arrays \[N, T, D\] of tokens with the same rows"):
        head_of(POOL).log_probabilities({"a": torch.ones(3, 4)})
    with pytest.raises(ValueError, match=r"with the same rows, got \{'a': \[3, 2\], 'b': \[2, 2\]\}"):
        head_of(columns=("a", "b")).log_probabilities({"a": torch.ones(3, 2), "b": torch.ones(2, 2)})


def test_numbers_that_float32_cannot_hold_are_not_finite():
    assert finite_rows([torch.tensor([[1e300], [1.0]], dtype=torch.float64)]).tolist() == [False, True]
    with pytest.raises(ValueError, match="1 of 2 rows"):
        head_of(dim=1).log_probabilities({"a": torch.tensor([[1e300], [1.0]], dtype=torch.float64)})


def test_other_number_types_and_arrays_are_read():
    head, x = head_of(), torch.randint(0, 5, (3, 4))
    wanted = head.logits({"a": x.float()})
    assert torch.equal(head.logits({"a": x}), wanted)
    for kind in (np.float16, ">f4", np.longdouble, np.int8):
        assert torch.equal(head.logits({"a": x.numpy().astype(kind)}), wanted)
    for other in (x.numpy().astype(str), x.to(torch.complex64), x.numpy().astype(complex)):
        with pytest.raises(ValueError, match="vectors of real numbers, but column 'a' holds"):
            head.logits({"a": other})
