"""The training rows of a stack as its heads see them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.preprocess import Affine
from heads.rows import Rows
from training.batches import shares_of
from training.checks import columns_of
from training.data import Data
from training.facts import Facts, facts_of
from training.randomness import generator
from training.run import RunSpec


@dataclass(frozen=True)
class TrainRows:
    """Preprocessed training rows, with those that were made up for small classes at the end.

    Attributes:
        columns: the columns that were read.
        preprocess: fitted to the rows of the table.
        x: [N, D].
        labels: [N].
        groups: [N]; None where they are not known.
        counts: [C] rows of the table in each class, without those made up.
    """

    columns: tuple[str, ...]
    preprocess: Affine
    x: Tensor
    labels: Tensor
    groups: Tensor | None
    counts: Tensor

    def facts(self, run: RunSpec) -> Facts:
        """What the losses of a run need to know of the rows, as its sampler shows them at the end of training."""
        loss = run.train.loss
        groups = self.groups if loss.count == "groups" else None
        found = facts_of(self.labels, len(self.counts), loss.class_weight, groups)
        return found.under_sampler(shares_of(run.train.sampler, found.counts, 1.0))

    def for_classifier(self, hidden: Tensor, facts: Facts, class_names: Sequence[str]) -> Rows:
        """The rows as a classifier without gradient steps takes them, from its inputs [N, H]."""
        weight = facts.weight[facts.position[self.labels]]
        return Rows(hidden, self.labels, weight / weight.mean(), len(self.counts), tuple(class_names))


@torch.no_grad()
def train_rows(run: RunSpec, data: Data) -> TrainRows:
    """The training rows of a run."""
    columns = columns_of(run, data)
    x, labels = data.train.features(columns), data.train.labels
    counts = torch.bincount(labels, minlength=len(data.class_names))
    preprocess = run.head.preprocess.build(x.cpu()).to(x.device)
    seen = preprocess(x)
    new_x, new_labels = run.train.oversample.extra_rows(seen, labels, generator(run.order, "start", 3))
    if len(new_x) > 0:
        seen, labels = torch.cat([seen, new_x]), torch.cat([labels, new_labels])
    return TrainRows(columns, preprocess, seen, labels, data.train.groups, counts)
