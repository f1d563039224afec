"""The preprocessed training rows of a stack."""

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
    """Preprocessed training rows, followed by synthetic rows for small classes.

    Attributes:
        columns: names of the columns read.
        preprocess: preprocessing fitted to the rows of the table.
        x: features [N, D]; streamed if the rows stay on disk.
        labels: class indices [N].
        groups: group indices [N], or None if unknown.
        counts: images of the table per class [C], without synthetic rows.
        table_rows: number of rows that are not synthetic.
        images: image index [N] of each row, or None if each row is a different image; a synthetic row is its own image.
        partners: second class [N] of each row's label, or None if no label is mixed.
        shares: share [N] of each row's own class in its label, or None if no label is mixed.
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
        """Return partner classes and own-class shares of the rows at indices [B], or None if no label is mixed."""
        if self.partners is None or self.shares is None:
            return None, None
        return self.partners[index], self.shares[index]

    def pieces(self, at_once: int = 0, synthetic: bool = False) -> Iterable[Tensor]:
        """Return all rows in order, in pieces [n, D].

        Args:
            at_once: rows per piece, 0 for a single piece; streamed rows always come in their blocks.
            synthetic: whether to include synthetic rows; streamed rows have none.
        """
        if isinstance(self.x, StreamedRows):
            return self.x.pieces()
        x = self.x if synthetic else self.x[: self.table_rows]
        return torch.split(x, at_once) if at_once else [x]

    def statistics(self, run: RunSpec) -> ClassStatistics:
        """Compute the class statistics for the losses of a run, under its sampler at the end of training."""
        loss = run.train.loss
        counted = self.groups if loss.count == "groups" else self.images
        statistics = class_statistics_of(self.labels, len(self.counts), loss.class_weight, counted)
        drawn = self.counts if run.train.views == "together" else statistics.counts
        return statistics.under_sampler(shares_of(run.train.sampler, drawn, 1.0))

    def for_classifier(self, hidden: Tensor, statistics: ClassStatistics, class_names: Sequence[str]) -> Rows:
        """Return the rows for fitting a classifier without gradient steps, from its inputs [N, H]."""
        weight = statistics.weight[statistics.position[self.labels]]
        return Rows(hidden, self.labels, weight / weight.mean(), len(self.counts), tuple(class_names))


@torch.no_grad()
def train_rows(run: RunSpec, data: Data) -> TrainRows:
    """Load, join and preprocess the training rows of a run, and add its synthetic rows."""
    columns = columns_of(run, data)
    joined = joined_rows(run, data, columns)
    part = joined.part
    labels, images, groups = part.labels, part.images, part.groups
    counts = images_per_class(labels, images, len(data.class_names))
    # Vectors that are compared with weights from a file must all be divided by the same unit.
    keeps_space = any(classifier.keeps_space for classifier in run.classifiers)
    widths = () if keeps_space else [part.shapes[name][-1] for name in columns]
    if part.is_stored and isinstance(run.train.sampler, Shuffled):
        affine, rows = streamed(part, columns, run.head.preprocess, run.train.sampler, widths)
        return TrainRows(columns, affine, rows, labels, groups, counts, len(labels), images)
    x = part.features(columns)
    if images is not None and run.train.views == "averaged":
        first = rows_of_first_views(images)
        x, labels, groups, images = averaged(x, images), labels[first], None if groups is None else groups[first], None
    preprocess = run.head.preprocess.build(x.cpu(), widths).to(x.device)
    x, table_rows = preprocess(x), len(labels)
    new_x, new_labels = run.train.oversample.extra_rows(x, labels, generator(run.order, "start", 3))
    if len(new_x) > 0:
        x, labels = torch.cat([x, new_x]), torch.cat([labels, new_labels])
        images = None if images is None else _with_new_images(images, len(new_x))
    partners, shares = _label_mix(joined, labels)
    return TrainRows(columns, preprocess, x, labels, groups, counts, table_rows, images, partners, shares)


def _label_mix(joined: Joined, labels: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return each row's partner class and own-class share [N]; synthetic rows have no partner."""
    if joined.partners is None or joined.shares is None:
        return None, None
    new = len(labels) - len(joined.partners)
    return torch.cat([joined.partners, labels[len(labels) - new :]]), torch.cat([joined.shares, labels.new_ones(new)])


def _with_new_images(images: Tensor, rows: int) -> Tensor:
    """Append a new image index for each of this many synthetic rows."""
    return torch.cat([images, images.max() + 1 + torch.arange(rows, device=images.device)])
