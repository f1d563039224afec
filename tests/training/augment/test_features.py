import pytest
import torch

from frostbench.training.augment.features import AugmentDraw, Channels, FeatureAugment, channels_of

X = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5, 0]) + torch.tensor(
    [0.0, 10, 7]
)


def augmented(tree, x=X, seed=1):
    spec = FeatureAugment(**tree)
    return spec(x, channels_of(X), spec.draw(x.shape, torch.Generator().manual_seed(seed), x.dtype))


def test_the_statistics_are_those_of_the_rows_with_ddof_zero():
    found = channels_of(torch.tensor([[1.0, 10], [3, 10], [5, 10]]))
    assert found.mean.tolist() == [3, 10]
    assert found.std.tolist() == pytest.approx([1.6329931619, 0])


def test_noise_is_in_units_of_each_channel_and_a_constant_channel_gets_none():
    moved = augmented({"noise": 0.05}) - X
    assert moved.std(0).tolist() == pytest.approx([0.05, 0.25, 0], rel=0.02)
    assert moved.mean(0).tolist() == pytest.approx([0, 0, 0], abs=0.01)


def test_noise_of_known_statistics_matches_the_vector():
    channels = Channels(torch.zeros(2), torch.tensor([1.0, 2.0]))
    draw = AugmentDraw(torch.empty(0), torch.empty(0), torch.ones(1, 2))
    found = FeatureAugment(noise=0.05)(torch.zeros(1, 2), channels, draw)
    assert found[0].tolist() == pytest.approx([0.05, 0.1])


def test_channel_gains_act_about_the_mean_and_differ_by_channel_and_sample():
    x = X[:, :2]
    channels, spec = channels_of(x), FeatureAugment(channel_scale=0.1)
    found = spec(x, channels, spec.draw(x.shape, torch.Generator().manual_seed(1), x.dtype))
    gains = (found - channels.mean) / (x - channels.mean)
    sure = (x - channels.mean).abs().min(1).values > 0.1
    gains = gains[sure]
    assert gains.min().item() == pytest.approx(0.9, abs=1e-2)
    assert gains.max().item() == pytest.approx(1.1, abs=1e-2)
    assert gains.mean().item() == pytest.approx(1, abs=2e-3)
    assert (gains[:, 0] - gains[:, 1]).abs().max() > 0.1
    assert gains.std(0).tolist() == pytest.approx([0.1 / 3**0.5] * 2, rel=0.03)


def test_the_gain_is_one_number_for_a_vector():
    ratio = augmented({"gain": 0.2})[:, 1:] / X[:, 1:]
    assert torch.allclose(ratio[:, 0], ratio[:, 1])
    assert ratio.min().item() == pytest.approx(0.8, abs=1e-2)
    assert ratio.max().item() == pytest.approx(1.2, abs=1e-2)


def test_at_its_neutral_values_nothing_changes_and_nothing_is_drawn():
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    draw = FeatureAugment().draw(X.shape, generator, X.dtype)
    assert torch.equal(FeatureAugment()(X, channels_of(X), draw), X)
    assert [len(part) for part in draw] == [0, 0, 0]
    assert torch.equal(generator.get_state(), before)
    assert FeatureAugment().is_neutral


@pytest.mark.parametrize("tree", [{"noise": 0.1}, {"channel_scale": 0.1}, {"gain": 0.1}])
def test_every_part_is_active_seeded_and_keeps_the_type(tree):
    assert not FeatureAugment(**tree).is_neutral
    found = augmented(tree)
    assert torch.equal(found, augmented(tree))
    assert not torch.equal(found, augmented(tree, seed=2))
    assert found.dtype == torch.float32
    assert found.isfinite().all()


@pytest.mark.parametrize("per_head", [True, False])
def test_heads_with_their_own_numbers_equal_a_loop(per_head):
    spec, generator = FeatureAugment(noise=0.1, channel_scale=0.1, gain=0.1), torch.Generator().manual_seed(0)
    x = torch.randn(3, 6, 4, dtype=torch.float64, generator=generator)
    channels = [channels_of(rows) for rows in x]
    draws = [spec.draw((6, 4), generator, x.dtype) for _ in x]
    numbers = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.0, 0.6], [0.7, 0.8, 0.9]], dtype=torch.float64)

    def one(rows, channels, draw, number):
        named = dict(zip(("noise", "channel_scale", "gain"), number, strict=True))
        return spec.model_copy(update=named)(rows, channels, draw)

    stacked = AugmentDraw(*map(torch.stack, zip(*draws, strict=True))) if per_head else draws[0]
    lifted = torch.func.vmap(one, in_dims=(0, 0, 0 if per_head else None, 0))
    found = lifted(x, Channels(*map(torch.stack, zip(*channels, strict=True))), stacked, numbers)
    for k, row in enumerate(numbers.tolist()):
        assert torch.allclose(found[k], one(x[k], channels[k], draws[k if per_head else 0], row), rtol=0, atol=1e-12)


def test_a_part_that_no_head_has_is_skipped_in_a_stack():
    spec = FeatureAugment(gain=0.1)
    draw = spec.draw((6, 4), torch.Generator().manual_seed(0), torch.float64)
    x = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    stacked = AugmentDraw(*(part.expand(3, *part.shape) for part in draw))
    found = torch.func.vmap(lambda rows, part: spec(rows, channels_of(rows), part))(x, stacked)
    assert torch.allclose(found, x * (1 + 0.1 * draw.gain), rtol=0, atol=1e-12)
