import numpy as np
import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import cosine_similarity

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import Cosine, CosineLayer, class_means, random_layer, unit_rows

SEED = 3


def generator(seed=SEED):
    return torch.Generator().manual_seed(seed)


def rows_of(x, labels, classes, weight=None, names=()):
    weight = torch.ones(len(x), dtype=torch.float64) if weight is None else weight
    return Rows(x, torch.tensor(labels), weight, classes, names)


def test_logits_are_scaled_cosines_to_the_nearest_centre():
    layer = random_layer(7, 4, 12.0, generator(), centers=3).double()
    h = torch.randn(5, 7, dtype=torch.float64, generator=generator(1))
    theirs = 12 * cosine_similarity(h[:, None, None], layer.weight[None], dim=3)
    assert torch.allclose(layer(h), theirs.amax(2), atol=1e-12)
    layer.combine = "lse"
    assert torch.allclose(layer(h), theirs.exp().mean(2).log(), atol=1e-12)


def test_unused_centres_are_ignored():
    for combine in ("max", "lse"):
        both = random_layer(6, 3, 10.0, generator(), centers=2)
        both.combine = combine
        both.used[:, 1] = False
        h = torch.randn(5, 6, generator=generator(1))
        assert torch.allclose(both(h), CosineLayer(both.weight[:, :1].detach(), 10.0)(h), atol=1e-5)
        both(h).square().sum().backward()
        assert (both.weight.grad[:, 1] == 0).all()
        assert both.weight.grad.isfinite().all()


def test_the_length_of_rows_and_weights_does_not_matter():
    layer = random_layer(6, 3, 10.0, generator())
    h = torch.randn(5, 6, generator=generator(1))
    wanted = layer(h)
    assert torch.allclose(layer(h * 1e4), wanted, atol=1e-5)
    with torch.no_grad():
        layer.weight.mul_(1e-4)
    assert torch.allclose(layer(h), wanted, atol=1e-5)


def test_a_row_of_zeros_has_cosine_0_and_small_gradients():
    layer = random_layer(6, 3, 10.0, generator())
    h = torch.randn(4, 6, generator=generator(1))
    h[1] = 0
    h.requires_grad_()
    logits = layer(h)
    logits.logsumexp(1).sum().backward()
    assert (logits[1] == 0).all()
    assert h.grad.abs().max() < 100
    assert layer.weight.grad.abs().max() < 100


def test_the_gradient_is_exact():
    torch.autograd.gradcheck(
        unit_rows, torch.randn(3, 4, dtype=torch.float64, generator=generator(), requires_grad=True)
    )


def test_a_stack_equals_a_loop():
    layers = [random_layer(6, 3, scale, generator(i), centers=2).double() for i, scale in enumerate((5.0, 10.0, 20.0))]
    h = torch.randn(5, 6, dtype=torch.float64, generator=generator(9))
    params, buffers = stack_module_state(layers)
    stacked = vmap(lambda p, b: functional_call(layers[0], (p, b), (h,)))(params, buffers)
    assert torch.allclose(stacked, torch.stack([layer(h) for layer in layers]), atol=1e-12, rtol=0)


def test_the_default_scale_follows_from_the_classes():
    assert Cosine().build(5, 2, generator()).scale.item() == 10
    assert Cosine().build(5, 1000, generator()).scale.item() == pytest.approx(27.6, abs=0.01)
    assert Cosine(scale=7).build(5, 2, generator()).scale.item() == 7


def test_state_round_trip():
    spec = Cosine()
    first = spec.build(6, 3, generator(1))
    second = spec.build(6, 3, generator(2))
    second.load_state_dict(first.state_dict())
    h = torch.randn(5, 6, generator=generator(9))
    assert torch.equal(first(h), second(h))
    assert first(h).dtype == torch.float32


def test_the_build_is_drawn_from_the_generator():
    first, again = (Cosine().build(6, 3, generator(4)).weight for _ in range(2))
    assert torch.equal(first, again)
    assert torch.allclose(first.norm(dim=2), torch.ones(3, 1))


def test_class_means_are_weighted_and_zero_for_absent_classes():
    x = torch.tensor([[1.0, 0], [3, 0], [0, 5]], dtype=torch.float64)
    means, mass = class_means(x, torch.tensor([0, 0, 2]), torch.tensor([3.0, 1, 2]), 3)
    assert means.tolist() == [[1.5, 0], [0, 0], [0, 5]]
    assert mass.tolist() == [4, 0, 2]


def test_it_starts_at_the_mean_directions():
    spec = Cosine(init="class_means")
    layer = spec.build(3, 3, generator())
    before = layer.weight.detach().clone()
    x = torch.tensor([[2.0, 0, 0], [0, 5, 0], [0, 0, 1]])
    spec.start(layer, rows_of(x, [0, 0, 1], 3), generator(1))
    directions = unit_rows(layer.weight.detach())[:, 0]
    assert torch.allclose(directions[0], torch.tensor([0.5, 0.5, 0]).sqrt(), atol=2e-3)
    assert torch.allclose(directions[1], torch.tensor([0.0, 0, 1]), atol=2e-3)
    assert not torch.equal(directions[1], torch.tensor([0.0, 0, 1]))
    assert torch.equal(layer.weight[2], before[2])


def test_random_init_does_not_move():
    layer = Cosine().build(3, 3, generator())
    before = layer.weight.detach().clone()
    Cosine().start(layer, rows_of(torch.randn(3, 3), [0, 0, 1], 3), generator())
    assert torch.equal(layer.weight, before)


def test_zero_rows_keep_the_weights():
    spec = Cosine(init="class_means")
    layer = spec.build(3, 2, generator())
    before = layer.weight.detach().clone()
    spec.start(layer, rows_of(torch.zeros(4, 3), [0, 0, 1, 1], 2), generator())
    assert torch.equal(layer.weight, before)


def test_it_starts_at_weights_from_a_file(tmp_path):
    file = tmp_path / "text.npz"
    np.savez(file, weights=np.array([[0.0, 2], [3, 0], [1, 1]]), class_names=np.array(["owl", "cat", "dog"]))
    spec = Cosine(init="weights", file=str(file))
    assert len(spec.sha256) == 64
    layer = spec.build(2, 2, generator())
    rows = rows_of(torch.randn(2, 2), [0, 1], 2, names=("cat", "owl"))
    spec.start(layer, rows, generator())
    assert layer.weight.tolist() == [[[1, 0]], [[0, 1]]]
    wide = spec.build(3, 2, generator())
    with pytest.raises(ValueError, match="as wide as the classifier's input, 3, got 2"):
        spec.start(wide, rows, generator())


@pytest.mark.parametrize("fields", [{"init": "weights"}, {"file": "text.npz"}, {"init": "class_means", "file": "a"}])
def test_a_file_requires_init_weights(fields):
    with pytest.raises(ValueError, match="A file is required for init=weights and only there"):
        Cosine(**fields)
