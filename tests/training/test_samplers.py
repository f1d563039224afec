import pytest
import torch

from training.samplers import class_shares, draw_rows

COUNTS = torch.tensor([900, 90, 10])
LABELS = torch.arange(3).repeat_interleave(COUNTS)[torch.randperm(1000, generator=torch.Generator().manual_seed(5))]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("sampler", "wanted"),
    [
        ("instance", [0.9, 0.09, 0.01]),
        ("square_root", [0.7034144335, 0.2224391749, 0.0741463916]),
        ("class_balanced", [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_shares_match_the_vectors_and_the_rows_drawn(sampler, wanted):
    assert class_shares(sampler, COUNTS).tolist() == pytest.approx(wanted, abs=1e-9)
    many, passes = generator(), 200
    drawn = torch.cat([draw_rows(sampler, LABELS, many) for _ in range(passes)])
    assert len(drawn) == 1000 * passes
    found = torch.bincount(LABELS[drawn]) / len(drawn)
    assert found.tolist() == pytest.approx(wanted, abs=5e-4)


def test_absent_classes_have_no_share_and_are_never_drawn():
    assert class_shares("class_balanced", torch.tensor([5, 0, 5])).tolist() == [0.5, 0, 0.5]
    assert class_shares("square_root", torch.tensor([9, 0, 1])).tolist() == [0.75, 0, 0.25]
    labels = torch.tensor([0] * 7 + [2])
    assert set(labels[draw_rows("class_balanced", labels, generator())].tolist()) == {0, 2}


def test_instance_sampling_sees_every_row_once():
    assert draw_rows("instance", LABELS, generator()).sort().values.tolist() == list(range(1000))


@pytest.mark.parametrize("sampler", ["square_root", "class_balanced"])
def test_one_pass_has_whole_shares_and_sees_the_rows_of_a_class_equally_often(sampler):
    drawn = draw_rows(sampler, LABELS, generator())
    sizes = torch.bincount(LABELS[drawn])
    assert len(drawn) == 1000
    assert (sizes - 1000 * class_shares(sampler, COUNTS)).abs().max() < 1
    seen = torch.bincount(drawn, minlength=1000)
    for label in range(3):
        of_class = seen[label == LABELS]
        assert of_class.max() - of_class.min() <= 1


def test_the_order_is_random_and_seeded():
    a, b, c = (draw_rows("class_balanced", LABELS, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    first_half = torch.bincount(LABELS[a[:500]])
    assert all(size == pytest.approx(500 / 3, abs=45) for size in first_half.tolist())


def test_a_class_of_one_row_is_drawn_in_every_pass():
    labels = torch.tensor([0] * 500 + [1])
    for sampler in ("square_root", "class_balanced"):
        assert (labels[draw_rows(sampler, labels, generator())] == 1).any()
