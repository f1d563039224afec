import pytest
import torch

from frostbench.training.augment.frofa import (
    Brightness,
    ChannelBrightness,
    Contrast,
    FrofaDraw,
    Posterize,
    Ranges,
    ranges_of,
)

X = torch.tensor([[-2.0, 0, 1, 6]], dtype=torch.float64)
RANGES = Ranges(torch.tensor([-3.0, -1, 0, 2]).double(), torch.tensor([1.0, 1, 2, 8]).double())
ALL = [Brightness(), ChannelBrightness(), Contrast(), Posterize()]
ROWS = torch.randn(400, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 4 + 1


def changed(spec, amount, x=X, ranges=RANGES):
    amount = torch.tensor(amount, dtype=x.dtype).reshape(len(x), -1)
    return spec(x, ranges, FrofaDraw(x.new_zeros(len(x), 1), amount))[0].tolist()


@pytest.mark.parametrize(
    ("spec", "amount", "wanted"),
    [
        (Brightness(width=0.2), [1], [-0.4, 1.6, 2.6, 6]),
        (Brightness(width=0.4), [-0.5], [-2, -1.6, -0.6, 4.4]),
        (Contrast(width=0.5), [-1], [-0.375, 0.625, 1.125, 3.625]),
        (Contrast(width=0.5), [1], [-2, -0.625, 0.875, 6]),
        (Posterize(), [3], [-2, -0.9960784314, 0.0078431373, 5.0274509804]),
        (ChannelBrightness(width=1), [0.2, -0.1, 0, 0.3], [-1.2, -0.2, 1, 7.8]),
        (ChannelBrightness(width=1), [1, -1, 0.2, 0.9], [1, -1, 1.4, 8]),
    ],
)
def test_the_vectors_and_where_they_are_clipped(spec, amount, wanted):
    assert changed(spec, amount) == pytest.approx(wanted, abs=1e-9)


def test_values_outside_the_ranges_of_the_training_rows_are_not_drawn_in():
    spec, x = ChannelBrightness(width=0.5), torch.tensor([[5.0, -4, 1, 5]], dtype=torch.float64)
    assert changed(spec, [0, 0, 0, 0], x) == x[0].tolist()
    assert changed(spec, [1, 1, 0, 0], x) == pytest.approx([5, -3, 1, 5])
    assert changed(spec, [-1, -1, 0, 0], x) == pytest.approx([3, -4, 1, 5])


@pytest.mark.parametrize("spec", ALL)
def test_a_vector_without_a_range_stays(spec):
    x = torch.full((1, 4), 3.0)
    draw = spec.draw((1, 4), torch.Generator().manual_seed(0), x.dtype)
    assert torch.equal(spec.model_copy(update={"probability": 1.0})(x, Ranges(x[0], x[0]), draw), x)


@pytest.mark.parametrize("spec", ALL)
def test_about_the_asked_share_of_vectors_changes_and_all_is_seeded(spec):
    def of(seed, probability):
        draw = spec.draw(ROWS.shape, torch.Generator().manual_seed(seed), ROWS.dtype)
        return spec.model_copy(update={"probability": probability})(ROWS, ranges_of(ROWS), draw)

    moved = (of(0, 0.3) != ROWS).any(1)
    assert moved.sum().item() == pytest.approx(120, abs=30)
    assert torch.equal(of(0, 0.3), of(0, 0.3))
    assert not torch.equal(of(0, 0.3), of(1, 0.3))
    assert torch.equal(of(0, 0.0), ROWS)
    assert (of(0, 1.0) != ROWS).any(1).sum() > 320


def test_brightness_moves_a_vector_as_one_and_channels_by_themselves():
    for spec, columns in ((Brightness(), 1), (Contrast(), 1), (ChannelBrightness(), 5), (Posterize(), 1)):
        draw = spec.draw((400, 5), torch.Generator().manual_seed(0), torch.float32)
        assert draw.coin.shape == (400, 1)
        assert draw.amount.shape == (400, columns)
        assert draw.amount.dtype == torch.float32
    bits = Posterize(least_bits=6).draw((400, 5), torch.Generator().manual_seed(0), torch.float32).amount
    assert bits.unique().tolist() == [6, 7, 8]
    uniform = ChannelBrightness().draw((4000, 5), torch.Generator().manual_seed(0), torch.float32).amount
    assert (uniform.min().item(), uniform.max().item()) == pytest.approx((-1, 1), abs=1e-3)


def test_ranges_leave_out_the_outermost_thousandth_at_each_end():
    x = torch.stack([torch.arange(5001), -torch.arange(5001)], 1).double()
    x = x[torch.randperm(5001, generator=torch.Generator().manual_seed(0))]
    found = ranges_of(x)
    assert (found.low.tolist(), found.high.tolist()) == ([5, -4995], [4995, -5])
    assert [end.tolist() for end in ranges_of(torch.tensor([[1.0, 4], [3, 2]]))] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("spec", [Brightness(), ChannelBrightness(), Contrast()])
def test_at_width_zero_nothing_changes(spec):
    still = spec.model_copy(update={"width": 0.0, "probability": 1.0})
    draw = still.draw(ROWS.shape, torch.Generator().manual_seed(0), ROWS.dtype)
    assert torch.allclose(still(ROWS, ranges_of(ROWS), draw), ROWS, rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", ALL)
def test_heads_with_their_own_numbers_equal_a_loop(spec):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 8, 5, dtype=torch.float64, generator=generator)
    draws = [spec.draw((8, 5), generator, x.dtype) for _ in x]
    ranges = ranges_of(ROWS)
    numbers = torch.tensor([[0.2, 0.1], [0.9, 0.3], [1.0, 0.0]], dtype=torch.float64)

    def one(rows, draw, number):
        update = {"probability": number[0]} | ({} if isinstance(spec, Posterize) else {"width": number[1]})
        return spec.model_copy(update=update)(rows, ranges, draw)

    found = torch.func.vmap(one)(x, FrofaDraw(*map(torch.stack, zip(*draws, strict=True))), numbers)
    for k, row in enumerate(numbers.tolist()):
        assert torch.allclose(found[k], one(x[k], draws[k], row), rtol=0, atol=1e-12)
