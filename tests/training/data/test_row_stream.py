"""Heads trained on rows from disk equal those trained on the same rows in memory, in the same order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frostbench.heads.preprocess import Standardise, length_in_units, moments
from frostbench.training.augment.frofa import ranges_in, ranges_of
from frostbench.training.checks.streaming import needs_all_rows
from frostbench.training.crossval.crossval import cross_validate
from frostbench.training.data.part import Data, Part
from frostbench.training.data.row_stream import StreamedRows, streamed
from frostbench.training.engine.checkpoint import Checkpoints
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.engine.memory import need_of, parts_that_fit
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled, batches_of
from frostbench.training.sampling.samplers import draw_rows

COUNTS = [120, 40, 15, 5]
SAMPLER = {"kind": "shuffled", "buffer_rows": 48, "block_rows": 16}
MLP = {"kind": "mlp", "hidden": [6], "dropout": 0.3}


class Stored:
    """A stored column that records which rows were read."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.read_rows = x, []

    @property
    def shape(self) -> tuple[int, ...]:
        return self.x.shape

    def read(self, start: int, stop: int) -> np.ndarray:
        self.read_rows.append((start, stop))
        return self.x[start:stop]


def part(counts: list[int], seed: int) -> Part:
    """Return rows as float16 in memory, class by class, in two columns."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    centres = 2 * torch.randn(len(counts), 8, generator=torch.Generator().manual_seed(0))
    x = centres[labels] + 2 * torch.randn(len(labels), 8, generator=torch.Generator().manual_seed(seed))
    return Part({"a": x[:, :5].half(), "b": x[:, 5:].half()}, labels, labels % 3)


def on_disk(part: Part) -> Part:
    return Part({}, part.labels, part.groups, stored={n: Stored(x.numpy()) for n, x in part.columns.items()})


@pytest.fixture
def data() -> Data:
    return Data(part(COUNTS, 1), part([30] * 4, 2), part([30] * 4, 3), ("ash", "beech", "cedar", "elm"))


def run_of(*changes: dict, sampler: dict | None = None, epochs: int = 2) -> RunSpec:
    """Return a run of few epochs on both columns with a buffer."""
    train = {"schedule": {"epochs": epochs, "min_steps": 0, "batch_size": 20}, "sampler": SAMPLER | (sampler or {})}
    tree: dict = {"columns": ["a", "b"], "train": train}
    for change in changes:
        for key, value in change.items():
            tree[key] = tree.get(key, {}) | value if isinstance(value, dict) else value
    return RunSpec.model_validate(tree)


def heads_of(runs: list[RunSpec], data: Data) -> tuple[dict[int, Finished], list[Epoch]]:
    events = list(fit(runs, data))
    return {e.run: e for e in events if isinstance(e, Finished)}, [e for e in events if isinstance(e, Epoch)]


def assert_same_heads(runs: list[RunSpec], data: Data, atol: float) -> None:
    here, epochs = heads_of(runs, data)
    there, streamed_epochs = heads_of(runs, replace(data, train=on_disk(data.train)))
    assert here.keys() == there.keys() == set(range(len(runs)))
    for number in here:
        ours, other = here[number].head, there[number].head
        assert ours.temperature == pytest.approx(other.temperature, abs=1e-4)
        for (name, a), (_, b) in zip(ours.head.state_dict().items(), other.head.state_dict().items(), strict=True):
            assert torch.allclose(a, b, rtol=0, atol=atol), name
    assert [(e.run, e.epoch, e.best_epoch) for e in epochs] == [(e.run, e.epoch, e.best_epoch) for e in streamed_epochs]


CENTRED = {"head": {"preprocess": {"center": True, "std": True}}}
AUGMENTED = {"augment": {"noise": 0.1, "channel_scale": 0.2, "gain": 0.1}, "frofa": {"kind": "c2_dataset"}}


@pytest.mark.parametrize("body", [{"kind": "identity"}, MLP], ids=["linear", "mlp"])
@pytest.mark.parametrize("draw", ["instance", "square_root", "class_balanced", "progressive"])
def test_streamed_heads_are_those_in_memory_bit_for_bit(data: Data, body: dict, draw: str) -> None:
    assert_same_heads([run_of({"head": {"body": body}}, sampler={"draw": draw})], data, 0)


@pytest.mark.parametrize("body", [{"kind": "identity"}, MLP], ids=["linear", "mlp"])
def test_with_statistics_of_all_rows_they_are_the_same_up_to_rounding(data: Data, body: dict) -> None:
    head = {"preprocess": {"center": True, "std": True}, "body": body}
    assert_same_heads([run_of({"head": head})], data, 1e-6)
    assert_same_heads([run_of({"head": head}, {"train": AUGMENTED})], data, 1e-6)


@pytest.mark.parametrize("body", [{"kind": "identity"}, MLP], ids=["linear", "mlp"])
def test_a_stack_of_heads_is_streamed_together(data: Data, body: dict) -> None:
    optims = [{"kind": "adamw", "lr": lr} for lr in (0.001, 0.003, 0.01)]
    runs = [run_of({"head": {"body": body}}, {"train": {"optim": o} | AUGMENTED}, {"seed": 5}) for o in optims]
    runs += [r.model_copy(update={"seed": 6, "order_seed": 5}) for r in runs]
    assert_same_heads(runs, data, 1e-6)


@pytest.mark.parametrize("second", [{"kind": "crt"}, {"kind": "lws"}])
def test_second_stages_read_their_front_batch_by_batch(data: Data, second: dict) -> None:
    optims = [{"kind": "adamw", "lr": lr} for lr in (0.001, 0.01)]
    runs = [run_of({"head": {"body": MLP}, "train": {"optim": o}}, {"second": second | {"epochs": 2}}) for o in optims]
    assert_same_heads(runs, data, 1e-6)
    assert_same_heads(runs[:1], data, 1e-6)


@pytest.mark.parametrize(
    "loss", [{"supcon": {"weight": 0.5}}, {"count": "groups", "class_weight": {"kind": "inverse"}}]
)
def test_losses_that_compare_rows_or_count_groups_stream(data: Data, loss: dict) -> None:
    assert_same_heads([run_of({"head": {"body": MLP}, "train": {"loss": loss}})], data, 0)


def test_the_order_of_a_pass_is_that_of_the_draw_sorted_by_buffers() -> None:
    labels, sampler = torch.arange(100) // 25, Shuffled(buffer_rows=30, block_rows=10)
    found = torch.cat(batches_of(sampler, labels, 7, torch.Generator().manual_seed(3), 0.0))
    generator = torch.Generator().manual_seed(3)
    drawn, blocks = draw_rows("instance", labels, generator), torch.randperm(10, generator=generator)
    expected = [row for group in blocks.split(3) for row in drawn.tolist() if row // 10 in group.tolist()]
    assert found.tolist() == expected
    assert sorted(expected) == list(range(100))
    assert len({row // 10 for row in expected[:30]}) == 3


def test_without_a_buffer_the_order_is_a_random_permutation() -> None:
    labels = torch.arange(100) % 3
    found = torch.cat(batches_of(Shuffled(), labels, 7, torch.Generator().manual_seed(3), 0.0))
    assert torch.equal(found, torch.randperm(100, generator=torch.Generator().manual_seed(3)))


def test_a_pass_reads_each_block_once_however_batches_cross_buffers() -> None:
    table = on_disk(part([70, 30], 1))
    sampler = Shuffled(buffer_rows=33, block_rows=10)
    affine, rows = streamed(table, ("a", "b"), Standardise(), sampler)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        table.stored["a"].read_rows.clear()
        for batch in batches_of(sampler, table.labels, 16, generator, 0.0):
            x = torch.from_numpy(np.concatenate([table.stored[n].x[batch.numpy()] for n in "ab"], 1)).float()
            assert torch.equal(rows[batch], affine(x))
        # Blocks that are still in the buffer from the previous pass are not read again.
        read = table.stored["a"].read_rows
        assert len(read) == len(set(read))
        assert 7 <= len(read) <= 10


def test_any_rows_are_right_in_any_order() -> None:
    table = on_disk(part([70, 33], 1))
    _, rows = streamed(table, ("a",), Standardise(center=True), Shuffled(buffer_rows=20, block_rows=10))
    x = torch.from_numpy(table.stored["a"].x).double()
    centred = x - x.mean(0)
    centred = (length_in_units(x.shape[1]) * centred / centred.square().sum(1).mean().sqrt()).float()
    for seed in range(4):
        some = torch.randint(103, (60,), generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(rows[some], centred[some], rtol=0, atol=1e-5)
    assert torch.allclose(torch.cat(list(rows.pieces())), centred, rtol=0, atol=1e-5)


def test_moments_and_ranges_of_pieces_are_those_of_all_rows() -> None:
    x = torch.randn(5000, 6, generator=torch.Generator().manual_seed(0)) * torch.logspace(-2, 2, 6) + 300
    mean, spread, dtype = moments(x.split(777))
    assert dtype == torch.float32
    np.testing.assert_allclose(mean.numpy(), x.numpy().astype(float).mean(0), rtol=1e-13)
    np.testing.assert_allclose(spread.numpy(), x.numpy().astype(float).std(0), rtol=1e-9)
    for rows in (1, 3, 5000):
        pieces, full = ranges_in(x[:rows].split(777), rows), ranges_of(x[:rows])
        assert torch.equal(pieces.low, full.low)
        assert torch.equal(pieces.high, full.high)
    outside = int(0.001 * 4999)
    assert torch.equal(ranges_of(x).low, x.kthvalue(1 + outside, dim=0).values)


def test_only_the_buffer_is_in_memory() -> None:
    table = on_disk(part([700, 300], 1))
    _, rows = streamed(table, ("a", "b"), Standardise(), Shuffled(buffer_rows=250, block_rows=100))
    assert isinstance(rows, StreamedRows)
    assert rows.shape == (1000, 8)
    assert rows._buffer.shape == (200, 8)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"head": {"classifier": {"kind": "logreg"}}}, "head.classifier.kind=logreg needs all 180 rows"),
        ({"head": {"classifier": {"kind": "knn"}}}, "head.classifier.kind=knn needs"),
        ({"head": {"classifier": {"kind": "prototype"}}}, "head.classifier.kind=prototype needs"),
        ({"head": {"classifier": {"kind": "cosine", "init": "class_means"}}}, "head.classifier.init=class_means needs"),
        ({"second": {"kind": "refit"}}, "second.kind=refit needs"),
        ({"train": {"oversample": {"kind": "gaussian"}}}, "train.oversample.kind=gaussian needs"),
        ({"head": {"body": MLP}, "train": {"loss": {"center": {"weight": 0.1}}}}, "train.loss.center needs"),
        ({"train": {"sampler": {"kind": "pxk"}}}, "train.sampler.kind=pxk needs"),
        ({"train": {"sampler": {"kind": "shuffled"}}}, "train.sampler.buffer_rows=null needs"),
        (
            {"second": {"kind": "refit"}, "train": {"oversample": {"kind": "gaussian"}}},
            "refit, train.* need ",
        ),
    ],
)
def test_what_needs_all_rows_at_once_is_refused_by_name(data: Data, changes: dict, named: str) -> None:
    with pytest.raises(ValueError, match=f"training rows stay on disk, but .*{named}"):
        list(fit([run_of(changes)], replace(data, train=on_disk(data.train))))
    assert needs_all_rows(run_of(changes))


@pytest.mark.parametrize("classifier", ["cosine", "arcface", "cosface", "ldam"])
def test_heads_of_directions_start_without_rows(data: Data, classifier: str) -> None:
    tree = {"kind": classifier, "init": "random"} if classifier != "arcface" else {"kind": classifier, "centers": 2}
    assert_same_heads([run_of({"head": {"classifier": tree}}, epochs=1)], data, 0)


def test_cross_validation_is_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="needs the training rows in memory, but the 180 rows stay"):
        list(cross_validate([run_of()], replace(data, train=on_disk(data.train)), torch.arange(180)[None] % 3))


def test_vectors_that_are_not_finite_are_found_with_their_row(data: Data) -> None:
    table = on_disk(data.train)
    table.stored["b"].x[153, 1] = np.inf
    with pytest.raises(
        ValueError, match=r"1 of \d+ train rows of columns a, b holds NaN or infinity, the first in row 153"
    ):
        list(fit([run_of()], replace(data, train=table)))


def test_all_rows_of_a_stored_part_cannot_be_read_at_once(data: Data) -> None:
    table = on_disk(data.train)
    with pytest.raises(ValueError, match="Rows on disk are read block by block, but all 180"):
        table.features(("a",))
    with pytest.raises(ValueError, match=r"got \['c'\], but the table has \['a', 'b'\]"):
        next(table.pieces(("c",), 10))


def test_memory_counts_the_buffer_in_place_of_the_rows(data: Data) -> None:
    run, there = run_of(), replace(data, train=on_disk(data.train))
    in_memory = (3 + 8) * 16
    assert need_of(run, data).rows == 3 * 4 * (180 + 120) * 8
    assert need_of(run, there).rows == 3 * 4 * (in_memory // 3 + 1 + 120) * 8
    assert need_of(run, there).head == need_of(run, data).head
    with pytest.raises(ValueError, match=r"a smaller train\.sampler\.buffer_rows, train\.schedule"):
        parts_that_fit([0], [run], there, 2**10)


def test_a_stopped_stream_resumes_from_its_checkpoint(data: Data, tmp_path: Path) -> None:
    there, run = replace(data, train=on_disk(data.train)), run_of({"head": {"body": MLP}}, epochs=4)
    (full,) = [e for e in fit([run], there) if isinstance(e, Finished)]
    kept, stops = Checkpoints(tmp_path, 0.0), iter([False, True])
    list(fit([run], there, lambda: next(stops, True), kept))
    (resumed,) = [e for e in fit([run], there, checkpoints=kept) if isinstance(e, Finished)]
    for a, b in zip(full.head.head.parameters(), resumed.head.head.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_buffer_of_one_block_is_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="a buffer must hold two blocks or more: raise train"):
        list(fit([run_of(sampler={"buffer_rows": 31})], data))
