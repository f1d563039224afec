import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestCentroid

from frostbench.heads.closed_form.nearest_mean import NearestMean
from frostbench.heads.fitting_rows import Rows


def rows_of(x, labels, classes, weight=None):
    weight = torch.ones(len(x), dtype=torch.float64) if weight is None else weight
    return Rows(x, torch.as_tensor(labels), weight, classes)


def digits():
    x, y = load_digits(return_X_y=True)
    # scikit-learn warns of pixels that never change.
    return torch.tensor(x / 16)[:, x[:1000].std(0) > 0], torch.tensor(y)


def centred_unit(x):
    away = x - x[:1000].mean(0)
    return away / away.norm(dim=1, keepdim=True)


def test_euclidean_equals_scikit_learn():
    x, y = digits()
    layer = NearestMean(metric="euclidean", scale=2).fit(rows_of(x[:1000], y[:1000], 10))
    theirs = NearestCentroid().fit(centred_unit(x)[:1000], y[:1000])
    distance = torch.cdist(centred_unit(x), torch.tensor(theirs.centroids_)).square()
    assert torch.allclose(layer(x).double(), -distance, atol=1e-5)
    assert (layer(x).argmax(1).numpy() == theirs.predict(centred_unit(x))).all()
    assert layer(x).dtype == torch.float32


def test_cosine_is_the_cosine_to_the_mean_direction():
    x, y = digits()
    layer = NearestMean(center=False, scale=20).fit(rows_of(x, y, 10))
    unit = x / x.norm(dim=1, keepdim=True)
    means = torch.stack([unit[y == c].mean(0) for c in range(10)])
    wanted = 20 * torch.nn.functional.cosine_similarity(x[:, None], means[None], dim=2)
    assert torch.allclose(layer(x).double(), wanted, atol=1e-4)


def test_centring_removes_a_common_offset():
    x, y = digits()
    here, there = (NearestMean().fit(rows_of(z, y, 10))(z) for z in (x, x + 3))
    assert torch.allclose(here, there, atol=1e-4)


def test_a_weight_of_two_counts_as_two_rows():
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    twice = rows_of(x[[0, 0, 1, 2, 3, 4]], [0, 0, 0, 1, 1, 1], 2)
    weight = torch.tensor([2.0, 1, 1, 1, 1], dtype=torch.float64)
    once = rows_of(x, [0, 0, 1, 1, 1], 2, weight / weight.mean())
    assert torch.allclose(NearestMean().fit(twice)(x), NearestMean().fit(once)(x), atol=1e-6)


def test_it_carries_no_prior():
    assert NearestMean().carried(torch.tensor([0.9, 0.1]).log()).exp().tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("case", ["one row each", "absent", "two classes", "constant", "narrow"])
def test_odd_rows_give_finite_logits_and_a_state_that_loads(metric, case):
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    labels, classes = {"one row each": (range(6), 6), "absent": ([0, 0, 0, 3, 3, 3], 5)}.get(case, ([0, 1] * 3, 2))
    x = {"constant": torch.full_like(x, 0.1), "narrow": x[:, :1]}.get(case, x)
    spec = NearestMean(metric=metric)
    layer = spec.fit(rows_of(x, list(labels), classes))
    assert layer(x).isfinite().all()
    state = layer.state_dict()
    again = spec.blank(x.shape[1], classes, {k: v.shape for k, v in state.items()})
    again.load_state_dict(state)
    assert torch.equal(again(x), layer(x))
    if case == "one row each":
        assert layer(x).argmax(1).tolist() == list(range(6))
