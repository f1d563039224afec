import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from frostbench.heads.closed_form.knn import Neighbours
from frostbench.heads.fitting_rows import Rows


def rows_of(x, labels, classes, weight=None):
    weight = torch.ones(len(x), dtype=torch.float64) if weight is None else weight
    return Rows(x, torch.as_tensor(labels), weight, classes)


def at_cosines(cosines):
    """Unit rows [N, 2] with these cosines to the first axis."""
    cosines = torch.tensor(cosines)
    return torch.stack([cosines, (1 - cosines**2).sqrt()], 1)


QUERY = torch.tensor([[3.0, 0]])


def test_the_votes_match_the_vector():
    layer = Neighbours().fit(rows_of(at_cosines([0.9, 0.85, 0.8]), [1, 0, 0], 3))
    share = layer(QUERY)[0].exp()
    assert share.tolist() == pytest.approx([0.4216954523, 0.5783045477, 0], abs=2e-6)
    assert share.sum().item() == pytest.approx(1, abs=1e-6)
    assert share[2].item() == pytest.approx(1e-6 / 3, rel=1e-4)


def test_it_equals_scikit_learn():
    x, y = load_digits(return_X_y=True)
    train, test = slice(0, 1200), slice(1200, None)
    theirs = KNeighborsClassifier(20, metric="cosine", weights=lambda d: np.exp((1 - d) / 0.07))
    wanted = theirs.fit(x[train], y[train]).predict_proba(x[test])
    layer = Neighbours().fit(rows_of(torch.tensor(x[train]), y[train], 10))
    found = layer(torch.tensor(x[test])).softmax(1)
    assert found.dtype == torch.float32
    assert found.numpy() == pytest.approx(wanted, abs=1e-4)


def test_votes_divided_by_the_class_prior():
    x = at_cosines([0.9, 0.85, 0.8])
    plain, corrected = (Neighbours(prior_exponent=e).fit(rows_of(x, [1, 0, 0], 2))(QUERY)[0] for e in (0, 1))
    gap = (corrected[1] - corrected[0]) - (plain[1] - plain[0])
    assert gap.item() == pytest.approx(np.log(2), abs=1e-4)


def test_the_prior_that_is_left():
    log_prior = torch.tensor([0.8, 0.2]).double().log()
    assert Neighbours().carried(log_prior).exp().tolist() == pytest.approx([0.8, 0.2])
    assert Neighbours(prior_exponent=1).carried(log_prior).exp().tolist() == pytest.approx([0.5, 0.5])
    assert Neighbours(prior_exponent=0.5).carried(log_prior).exp().tolist() == pytest.approx([2 / 3, 1 / 3])


def test_a_weight_of_two_counts_as_two_rows():
    x = at_cosines([0.9, 0.85, 0.8])
    weight = torch.tensor([1.0, 2, 1], dtype=torch.float64)
    for exponent in (0.0, 1.0):
        spec = Neighbours(prior_exponent=exponent)
        once = spec.fit(rows_of(x, [1, 0, 0], 2, weight / weight.mean()))
        twice = spec.fit(rows_of(x[[0, 1, 1, 2]], [1, 0, 0, 0], 2))
        assert torch.allclose(once(QUERY), twice(QUERY), atol=1e-5)


def test_only_k_rows_vote_and_k_may_exceed_the_rows():
    x = at_cosines([0.9, 0.85, 0.8])
    rows = rows_of(x, [1, 0, 0], 2)
    assert Neighbours(k=1).fit(rows)(QUERY)[0].softmax(0)[1].item() == pytest.approx(1, abs=1e-5)
    assert torch.equal(Neighbours(k=500).fit(rows)(QUERY), Neighbours(k=3).fit(rows)(QUERY))


def test_ties_go_to_the_first_rows():
    x = torch.ones(40, 64)
    layer = Neighbours(k=5).fit(rows_of(x, [0] * 5 + [1] * 35, 2))
    for queries in (x[:1], x, x.repeat(30, 1)):
        assert (layer(queries).softmax(1)[:, 0] > 0.9999).all()


def test_the_state_is_complete_and_loading_rebuilds_the_index():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 8, generator=generator)
    spec = Neighbours(k=3)
    first = spec.fit(rows_of(x, torch.arange(30) % 3, 3))
    other = spec.fit(rows_of(x.flip(0).cos(), torch.arange(30) % 3, 3))
    assert set(first.state_dict()) == {"keys", "labels", "vote"}
    blank = spec.blank(8, 3, {k: v.shape for k, v in first.state_dict().items()})
    for layer in (blank, other):
        layer(x)
        layer.load_state_dict(first.state_dict())
        assert torch.equal(layer(x), first(x))
    for twin in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert torch.equal(twin(x), first(x))


@pytest.mark.parametrize("case", ["one row each", "absent", "two classes", "constant", "zero", "narrow"])
def test_odd_rows_give_finite_logits(case):
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    labels, classes = {"one row each": (range(6), 6), "absent": ([0, 0, 0, 3, 3, 3], 5)}.get(case, ([0, 1] * 3, 2))
    x = {"constant": torch.full_like(x, 0.1), "zero": x * 0, "narrow": x[:, :1]}.get(case, x)
    logits = Neighbours(prior_exponent=2).fit(rows_of(x, list(labels), classes))(x)
    assert logits.isfinite().all()
    assert logits.exp().sum(1).tolist() == pytest.approx([1] * 6, abs=1e-5)
    if case == "one row each":
        assert logits.argmax(1).tolist() == list(range(6))
