import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from frostbench.training.sampling.samplers import ClassBatches, class_shares, draw_rows

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


@pytest.mark.parametrize(
    ("progress", "wanted"),
    [
        (0, [0.9, 0.09, 0.01]),
        (0.25, [0.7583333333, 0.1508333333, 0.0908333333]),
        (0.5, [0.6166666667, 0.2116666667, 0.1716666667]),
        (1, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_progressive_shares_match_the_vectors_and_the_rows_drawn(progress, wanted):
    assert class_shares("progressive", COUNTS, progress).tolist() == pytest.approx(wanted, abs=1e-9)
    sizes = torch.bincount(LABELS[draw_rows("progressive", LABELS, generator(), progress)])
    assert sizes.tolist() == pytest.approx([1000 * share for share in wanted], abs=1)


def test_progressive_sampling_without_a_progress_is_refused():
    with pytest.raises(ValueError, match="needs the training progress"):
        class_shares("progressive", COUNTS)


counts_of_classes = st.lists(st.integers(0, 12), min_size=1, max_size=8).filter(any)


@given(counts_of_classes, st.integers(0, 2**31), st.floats(0, 1))
def test_any_pass_has_its_size_and_whole_shares(counts, seed, progress):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    for sampler in ("instance", "square_root", "class_balanced", "progressive"):
        drawn = draw_rows(sampler, labels, generator(seed), progress)
        assert len(drawn) == len(labels)
        shares = class_shares(sampler, torch.tensor(counts), progress)
        assert shares.sum().item() == pytest.approx(1)
        sizes = torch.bincount(labels[drawn], minlength=len(counts))
        assert (sizes - len(labels) * shares).abs().max() < 1 + 1e-9


@given(counts_of_classes, st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**31))
def test_any_class_batches_hold_different_rows_of_different_classes(counts, classes, rows, seed):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    present = torch.tensor(counts) > 0
    width = min(classes, int(present.sum()))
    sampler = ClassBatches(classes=classes, rows=rows)
    batches = sampler.batches(labels, generator(seed))
    assert len(batches) == math.ceil(len(labels) / (width * rows))
    times = torch.zeros(len(counts), dtype=torch.long)
    for batch in batches:
        assert len(set(batch.tolist())) == len(batch)
        sizes = torch.bincount(labels[batch], minlength=len(counts))
        assert (sizes > 0).sum() == width
        assert torch.equal(sizes[sizes > 0], torch.tensor(counts).clamp(max=rows)[sizes > 0])
        times += sizes > 0
    assert times[present].max() - times[present].min() <= 1
    seen = torch.bincount(torch.cat(batches), minlength=len(labels))
    for label in present.nonzero().squeeze(1).tolist():
        of_class = seen[labels == label]
        assert of_class.max() - of_class.min() <= 1
    again = sampler.batches(labels, generator(seed))
    assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))


def test_class_batches_are_random_and_their_shares_are_those_drawn():
    sampler = ClassBatches(classes=2, rows=20)
    first, second = (torch.cat(sampler.batches(LABELS, generator(seed))) for seed in (0, 1))
    assert not torch.equal(first, second)
    assert sampler.shares(torch.tensor([900, 90, 10, 0])).tolist() == pytest.approx([0.4, 0.4, 0.2, 0])
    many = generator()
    drawn = LABELS[torch.cat([torch.cat(sampler.batches(LABELS, many)) for _ in range(60)])]
    assert (torch.bincount(drawn) / len(drawn)).tolist() == pytest.approx([0.4, 0.4, 0.2], abs=0.01)
