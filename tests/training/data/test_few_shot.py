from dataclasses import replace

import numpy as np
import pytest
import torch

from frostbench.training.crossval.crossval import cross_validate
from frostbench.training.data.few_shot import drawn_rows, few_shot
from frostbench.training.data.part import Part, Views
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.engine.grouping import grouped
from frostbench.training.run import RunSpec

QUICK = {"train": {"schedule": {"epochs": 2, "min_steps": 0, "batch_size": 32}, "early_stop": {"metric": "last"}}}


def run(shots, seed=0, **changes):
    return RunSpec.model_validate(QUICK | {"shots": shots, "seed": seed} | changes)


def counts(labels, rows):
    return torch.bincount(labels[rows], minlength=int(labels.max()) + 1).tolist()


LABELS = torch.tensor([0] * 50 + [1] * 7 + [2] * 2)[torch.randperm(59, generator=torch.Generator().manual_seed(0))]


def test_each_class_has_as_many_rows_as_shots_or_all_of_its_own():
    assert counts(LABELS, drawn_rows(run(5), LABELS)) == [5, 5, 2]
    assert drawn_rows(run(0), LABELS) is None


def test_the_seed_draws_and_fewer_shots_are_a_subset():
    one, five = (set(drawn_rows(run(k), LABELS).tolist()) for k in (1, 5))
    assert one < five
    assert set(drawn_rows(run(5), LABELS).tolist()) == five
    assert set(drawn_rows(run(5, seed=1), LABELS).tolist()) != five


def test_every_row_of_a_class_is_drawn_equally_often():
    labels = torch.zeros(10, dtype=torch.int64)
    drawn = torch.zeros(10)
    for seed in range(2000):
        drawn[drawn_rows(run(3, seed=seed), labels)] += 1
    # 600 each; the standard deviation of a count is sqrt(2000 · .3 · .7) = 20.5
    assert (drawn - 600).abs().max() < 4 * 20.5


def test_shots_count_images_and_all_rows_of_an_image_are_drawn():
    images = torch.arange(20).repeat_interleave(3)
    labels = (images % 2).long()
    rows = drawn_rows(run(4), labels, images)
    assert torch.bincount(images[rows], minlength=20).unique().tolist() == [0, 3]
    assert counts(labels, rows) == [12, 12]


def test_the_data_of_a_run_are_its_rows_with_their_groups_and_views(long_tail):
    part = long_tail.train
    groups, name = torch.arange(len(part)), long_tail.first_column
    seen = torch.tensor([0, 3, len(part) - 1, 3])
    views = Views({name: part.columns[name][seen] + 1}, seen, part.labels[seen], torch.ones(4))
    data = replace(long_tail, train=replace(part, groups=groups), views={"flip": views})
    rows = drawn_rows(run(2), part.labels)
    drawn = few_shot(run(2), data)
    assert drawn.train.groups.tolist() == rows.tolist()
    assert torch.equal(drawn.train.columns[name], part.columns[name][rows])
    kept = [number for number, row in enumerate(seen.tolist()) if row in rows.tolist()]
    assert len(drawn.views["flip"].rows) == len(kept)
    originals = drawn.train.groups[drawn.views["flip"].rows]
    assert originals.tolist() == seen[kept].tolist()
    assert drawn.select is data.select


class Stored:
    """A column on disk that counts how it is read."""

    def __init__(self, x):
        self.x, self.shape = x, tuple(x.shape)

    def read(self, start, stop):
        return self.x[start:stop]


def test_rows_on_disk_are_read_into_memory(long_tail, monkeypatch):
    import frostbench.training.data.few_shot as module

    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    part, name = long_tail.train, long_tail.first_column
    stored = Part({}, part.labels, stored={name: Stored(part.columns[name].numpy().astype(np.float16))})
    drawn = few_shot(run(3), replace(long_tail, train=stored)).train
    expected = part.columns[name].half().float()[drawn_rows(run(3), part.labels)]
    assert not drawn.is_stored
    assert torch.equal(drawn.columns[name], expected)
    (end,) = (e for e in fit([run(3)], replace(long_tail, train=stored)) if isinstance(e, Finished))
    assert end.head.counts.max() == 3


@pytest.mark.parametrize("kind", ["linear", "lda", "logreg", "knn"])
def test_a_run_trains_on_its_rows_alone(long_tail, kind):
    changes = {"head": {"classifier": {"kind": kind}}}
    (end,) = (e for e in fit([run(4, **changes)], long_tail) if isinstance(e, Finished))
    alone = few_shot(run(4), long_tail)
    (same,) = (e for e in fit([run(0, **changes)], alone) if isinstance(e, Finished))
    assert end.head.counts.tolist() == torch.bincount(long_tail.train.labels).clamp(max=4).tolist()
    x = long_tail.select.columns
    assert torch.equal(end.head.logits(x), same.head.logits(x))


def test_runs_on_other_rows_are_other_stacks(long_tail):
    runs = [run(shots, seed=seed, order_seed=0) for shots in (0, 3) for seed in (0, 1)]
    assert grouped(runs, long_tail) == [[0, 1], [2], [3]]


def test_cross_validation_refuses_it(long_tail):
    folds = torch.arange(len(long_tail.train))[None] % 3
    with pytest.raises(ValueError, match="shots draws other rows for each seed"):
        list(cross_validate([run(3)], long_tail, folds))
