import pytest
import torch

from training.augment import Channels, FeatureAugment, channels_of

X = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5, 0]) + torch.tensor(
    [0.0, 10, 7]
)


def augmented(tree, x=X, seed=1):
    return FeatureAugment(**tree)(x, channels_of(X), torch.Generator().manual_seed(seed))


def test_the_statistics_are_those_of_the_rows_with_ddof_zero():
    found = channels_of(torch.tensor([[1.0, 10], [3, 10], [5, 10]]))
    assert found.mean.tolist() == [3, 10]
    assert found.std.tolist() == pytest.approx([1.6329931619, 0])


def test_noise_is_in_units_of_each_channel_and_a_constant_channel_gets_none():
    moved = augmented({"noise": 0.05}) - X
    assert moved.std(0).tolist() == pytest.approx([0.05, 0.25, 0], rel=0.02)
    assert moved.mean(0).tolist() == pytest.approx([0, 0, 0], abs=0.01)


def test_noise_of_known_statistics_matches_the_vector():
    drawn = torch.randn(1, 2, generator=torch.Generator().manual_seed(1))
    channels = Channels(torch.zeros(2), torch.tensor([1.0, 2.0]))
    found = FeatureAugment(noise=0.05)(torch.zeros(1, 2), channels, torch.Generator().manual_seed(1))
    assert torch.allclose(found, drawn * torch.tensor([0.05, 0.1]))


def test_channel_gains_act_about_the_mean_and_differ_by_channel_and_sample():
    x = X[:, :2]
    channels = channels_of(x)
    found = FeatureAugment(channel_scale=0.1)(x, channels, torch.Generator().manual_seed(1))
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
    assert torch.equal(FeatureAugment()(X, channels_of(X), generator), X)
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
