"""The training rows of a stack as its heads see them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.preprocess import Affine
from frostbench.training.data.named import columns_of
from frostbench.training.data.part import Data
from frostbench.training.data.randomness import generator
from frostbench.training.data.row_stream import StreamedRows, streamed
from frostbench.training.data.view_rows import Joined, joined_rows
from frostbench.training.data.views import averaged, images_per_class, rows_of_first_views
from frostbench.training.losses.class_statistics import ClassStatistics, class_statistics_of
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled, shares_of


@dataclass(frozen=True)
class TrainRows:
    """Preprocessed training rows, with those that were made up for small classes at the end.

    Attributes:
        columns: the columns that were read.
        preprocess: fitted to the rows of the table.
        x: [N, D]; streamed where the rows stay on disk.
        labels: [N].
        groups: [N]; None where they are not known.
        counts: [C] rows of the table in each class, without those made up; of several views of an image one counts.
        table_rows: how many of the rows were not made up.
        images: [N] number of the image that each row is a view of, made-up rows each of one of their own; None where
            each row is an image of its own.
        partners: [N] class that shares the label of each row; None where no label is shared.
        shares: [N] of the label that is the row's own; None likewise.
    """

    columns: tuple[str, ...]
    preprocess: Affine
    x: Tensor | StreamedRows
    labels: Tensor
    groups: Tensor | None
    counts: Tensor
    table_rows: int
    images: Tensor | None = None
    partners: Tensor | None = None
    shares: Tensor | None = None

    def shared(self, index: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Who shares the labels of rows of these numbers [B], and how much is their own; None where nobody does."""
        if self.partners is None or self.shares is None:
            return None, None
        return self.partners[index], self.shares[index]

    def pieces(self, at_once: int = 0, made_up: bool = False) -> Iterable[Tensor]:
        """Give all rows in their order, [n, D] each.

        Args:
            at_once: rows of a piece; 0 gives them whole. Streamed rows come in their blocks.
            made_up: whether rows that were made up come too; of streamed rows none are.
        """
        if isinstance(self.x, StreamedRows):
            return self.x.pieces()
        x = self.x if made_up else self.x[: self.table_rows]
        return torch.split(x, at_once) if at_once else [x]

    def statistics(self, run: RunSpec) -> ClassStatistics:
        """What the losses of a run need to know of the rows, as its sampler shows them at the end of training."""
        loss = run.train.loss
        counted = self.groups if loss.count == "groups" else self.images
        found = class_statistics_of(self.labels, len(self.counts), loss.class_weight, counted)
        drawn = self.counts if run.train.views == "together" else found.counts
        return found.under_sampler(shares_of(run.train.sampler, drawn, 1.0))

    def for_classifier(self, hidden: Tensor, statistics: ClassStatistics, class_names: Sequence[str]) -> Rows:
        """The rows as a classifier without gradient steps takes them, from its inputs [N, H]."""
        weight = statistics.weight[statistics.position[self.labels]]
        return Rows(hidden, self.labels, weight / weight.mean(), len(self.counts), tuple(class_names))


@torch.no_grad()
def train_rows(run: RunSpec, data: Data) -> TrainRows:
    """The training rows of a run."""
    columns = columns_of(run, data)
    joined = joined_rows(run, data, columns)
    part = joined.part
    labels, images, groups = part.labels, part.images, part.groups
    counts = images_per_class(labels, images, len(data.class_names))
    # Vectors that are compared with weights from a file share one unit.
    widths = () if any(each.keeps_space for each in run.classifiers) else [part.shapes[name][-1] for name in columns]
    if part.is_stored and isinstance(run.train.sampler, Shuffled):
        affine, rows = streamed(part, columns, run.head.preprocess, run.train.sampler, widths)
        return TrainRows(columns, affine, rows, labels, groups, counts, len(labels), images)
    x = part.features(columns)
    if images is not None and run.train.views == "averaged":
        first = rows_of_first_views(images)
        x, labels, groups, images = averaged(x, images), labels[first], None if groups is None else groups[first], None
    preprocess = run.head.preprocess.build(x.cpu(), widths).to(x.device)
    seen, table_rows = preprocess(x), len(labels)
    new_x, new_labels = run.train.oversample.extra_rows(seen, labels, generator(run.order, "start", 3))
    if len(new_x) > 0:
        seen, labels = torch.cat([seen, new_x]), torch.cat([labels, new_labels])
        images = None if images is None else _with_own(images, len(new_x))
    partners, shares = _shared(joined, labels)
    return TrainRows(columns, preprocess, seen, labels, groups, counts, table_rows, images, partners, shares)


def _shared(joined: Joined, labels: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Who shares the labels [N] of all rows, and how much is their own; rows that were made up share with nobody."""
    if joined.partners is None or joined.shares is None:
        return None, None
    new = len(labels) - len(joined.partners)
    return torch.cat([joined.partners, labels[len(labels) - new :]]), torch.cat([joined.shares, labels.new_ones(new)])


def _with_own(images: Tensor, rows: int) -> Tensor:
    """Numbers of images with as many new ones behind them, one for each of the rows that were made up."""
    return torch.cat([images, images.max() + 1 + torch.arange(rows, device=images.device)])
