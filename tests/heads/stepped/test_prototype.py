import pytest
import torch
from sklearn.cluster import KMeans

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import unit_rows
from frostbench.heads.stepped.prototype import Prototype, cluster_centers


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows_of(x, labels, classes):
    return Rows(x, torch.as_tensor(labels), torch.ones(len(x), dtype=torch.float64), classes)


def blobs():
    """Class 0 has two clusters, class 1 one, class 2 a single row, class 3 no rows."""
    noise = 0.05 * torch.randn(31, 4, generator=generator(1))
    places = torch.eye(4)[[0] * 10 + [1] * 10 + [2] * 10 + [3]]
    return places + noise, [0] * 20 + [1] * 10 + [2]


def started(spec, x, labels, classes):
    layer = spec.build(x.shape[1], classes, generator())
    spec.start(layer, rows_of(x, labels, classes), generator(2))
    return layer


def test_prototypes_start_at_the_clusters():
    x, labels = blobs()
    layer = started(Prototype(centers=2), x, labels, 4)
    own = unit_rows(x[:20].double())
    theirs = unit_rows(torch.stack([own[:10].mean(0), own[10:].mean(0)]))
    ours = layer.weight[0].detach().double()
    assert torch.allclose(ours[ours[:, 0].argsort(descending=True)], theirs, atol=1e-5)
    assert layer.used.tolist() == [[True, True], [True, True], [True, False], [True, False]]


def test_one_prototype_is_the_mean_direction():
    x, labels = blobs()
    layer = started(Prototype(), x, labels, 4)
    mean = unit_rows(unit_rows(x[20:30]).mean(0))
    assert torch.allclose(layer.weight[1, 0], mean, atol=1e-6)
    assert torch.allclose(layer.weight[3].norm(dim=1), torch.ones(1))


@pytest.mark.parametrize(("count", "most", "wanted"), [(1, 5, 1), (9, 5, 1), (10, 5, 2), (25, 5, 5), (100, 3, 3)])
def test_a_class_gets_one_prototype_per_five_rows(count, most, wanted):
    x = torch.randn(count, 3, dtype=torch.float64, generator=generator())
    assert len(cluster_centers(x, torch.ones(count, dtype=torch.float64), most, 0)) == wanted


def test_clusters_equal_scikit_learn_with_weights():
    x = torch.randn(40, 3, dtype=torch.float64, generator=generator())
    weight = torch.rand(40, dtype=torch.float64, generator=generator(1))
    theirs = KMeans(3, n_init=1, random_state=5).fit(x.numpy(), sample_weight=weight.numpy()).cluster_centers_
    assert cluster_centers(x, weight, 3, 5).numpy() == pytest.approx(theirs)


@pytest.mark.parametrize("combine", ["max", "lse"])
def test_two_sided_classes_need_two_prototypes(combine):
    x, labels = blobs()
    two = started(Prototype(centers=2, combine=combine, scale=20), x, labels, 4)
    assert two(x).argmax(1).tolist() == labels


@pytest.mark.parametrize("combine", ["max", "lse"])
@pytest.mark.parametrize("case", ["constant", "zero", "narrow", "two classes"])
def test_odd_rows_start_train_and_load(combine, case):
    x = torch.randn(24, 30, generator=generator())
    x = {"constant": torch.full_like(x, 0.1), "zero": torch.zeros_like(x), "narrow": x[:, :1]}.get(case, x)
    spec = Prototype(centers=3, combine=combine)
    layer = started(spec, x, [0] * 23 + [1], 2)
    layer(x).logsumexp(1).sum().backward()
    assert layer(x).isfinite().all()
    assert layer.weight.grad.isfinite().all()
    again = spec.build(x.shape[1], 2, generator(9))
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x), layer(x))
    assert again.combine == combine
