"""Checks, before the first step, that runs can be trained on data."""

from collections.abc import Sequence
from importlib.util import find_spec

import torch

from frostbench.heads.bodies.attention_pool import AttentionPool
from frostbench.heads.bodies.body import Mlp
from frostbench.training.checks.conflicts import check
from frostbench.training.checks.metrics import check_metrics
from frostbench.training.checks.posthoc import check_posthoc
from frostbench.training.checks.streaming import check_streams
from frostbench.training.checks.views import check_finite_views, check_labels, check_views
from frostbench.training.data.named import background_of, columns_of
from frostbench.training.data.part import Data
from frostbench.training.losses.external import ExternalLoss
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import Smote

ROWS_AT_ONCE = 4096
"""Rows that are read at a time if they stay on disk."""


def check_data(runs: Sequence[RunSpec], data: Data) -> None:
    """Refuse runs that cannot be trained on data.

    Raises:
        ValueError: options of a run are incompatible; a column, part, group, background class, file or package that it
            needs is missing; its metric counts no class of the validation rows; vectors are not finite or do not have
            the shape that the head reads; training rows are of one class, or of too many; or the run needs all rows at
            once, but they stay on disk.
    """
    checked: set[tuple[str, ...]] = set()
    for run in runs:
        check(run)
        # Rules cover the catalogue, but cannot read what a plugin declares before its file has run.
        if (mixing := run.train.mixing) is not None:
            check_labels(run, f"{mixing.kind} gives each row the labels of two classes", f"set {mixing.off}")
        if run.shots == 0:  # otherwise the drawn rows are read into memory
            check_streams(run, data)
        background = background_of(run, data)
        columns = columns_of(run, data)
        if columns not in checked:
            _check_finite(columns, data)
            checked.add(columns)
        _check_shapes(run, columns, data)
        _check_classes(run, data)
        _check_parts(run, data)
        check_views(run, data)
        check_finite_views(run, columns, data)
        check_metrics(run, data, background)
        for classifier in run.classifiers:
            classifier.check_weights(data.class_names, sum(data.train.shapes[name][-1] for name in columns))
        _check_packages(run)


def _check_finite(columns: tuple[str, ...], data: Data) -> None:
    for role, part in (("train", data.train), ("select", data.select), ("calibrate", data.calibrate)):
        rows, start = [], 0
        for x in part.pieces(columns, ROWS_AT_ONCE):
            rows += [start + row for row in (~x.isfinite().flatten(1).all(1)).nonzero().squeeze(1).tolist()]
            start += len(x)
        if rows:
            raise ValueError(
                f"Vectors must be finite, but {len(rows)} of {start} {role} rows of {_named(columns)} "
                f"{'holds' if len(rows) == 1 else 'hold'} NaN or infinity, the first in row {rows[0]}. Run "
                "`frostbench cache verify`, and embed those images again."
            )


def _named(columns: tuple[str, ...]) -> str:
    return f"column{'' if len(columns) == 1 else 's'} {', '.join(columns)}"


def _check_shapes(run: RunSpec, columns: tuple[str, ...], data: Data) -> None:
    """Refuse tokens without attention pooling, and attention pooling without tokens."""
    shapes, body = [data.train.shapes[name] for name in columns], run.head.body
    are_tokens, holds = len(shapes[0]) == 3, "holds" if len(columns) == 1 else "hold"
    if are_tokens and not isinstance(body, AttentionPool):
        raise ValueError(
            f"Tokens [N, T, D] must be pooled to a vector, but {_named(columns)} {holds} tokens and head.body.kind "
            f"is {body.kind}. Set head.body.kind=attention_pool, or use a column of vectors."
        )
    if not isinstance(body, AttentionPool):
        return
    if not are_tokens:
        raise ValueError(
            f"attention_pool reads tokens [N, T, D], but {_named(columns)} {holds} one vector per image. Use a "
            "column of tokens, or set head.body.kind=mlp."
        )
    width = sum(shape[-1] for shape in shapes)
    if width % body.heads:
        raise ValueError(
            f"head.body.heads must divide the token width {width}, got {body.heads}. Use one of "
            f"{[heads for heads in range(1, 65) if width % heads == 0]}."
        )


def _check_classes(run: RunSpec, data: Data) -> None:
    with_rows = int((torch.bincount(data.train.labels) > 0).sum())
    if with_rows == 1:
        only, count = data.class_names[int(data.train.labels[0])], len(data.train)
        raise ValueError(
            "Training needs at least two classes, but "
            f"{'the only training row is' if count == 1 else f'all {count} training rows are'} of class {only!r}. Add "
            "images of another class, or check the labels and the split."
        )
    for classifier in run.classifiers:
        classifier.check_memory(len(data.class_names), _width_of(run, data))
    if any(each.minimises_loss for each in run.classifiers):
        for method in run.train.loss.trained.values():
            method.check_classes(with_rows)
    point = run.train.loss.point
    if any(each.is_closed_form and each.minimises_loss for each in run.classifiers) and isinstance(point, ExternalLoss):
        point.check_solved()
    if run.train.loss.count == "groups" and data.train.groups is None:
        raise ValueError(
            "train.loss.count=groups needs the groups of the training rows, but there are none. Name groups when you "
            "embed images, pass Part(groups=...), or set train.loss.count=images."
        )

    present = torch.bincount(data.train.labels).nonzero().squeeze(1)
    run.train.loss.logit_adjustment.given_log_prior(data.class_names, present)


def _width_of(run: RunSpec, data: Data) -> int:
    width = sum(data.train.shapes[name][-1] for name in columns_of(run, data))
    return run.head.body.hidden[-1] if isinstance(run.head.body, Mlp) else width


def _check_parts(run: RunSpec, data: Data) -> None:
    if len(data.train) == 0:
        raise ValueError("Training needs at least one row, but the training part is empty. Check the split.")
    needs = _needs_selection(run)
    if needs and len(data.select) == 0:
        raise ValueError(
            f"{needs} on the validation rows, but there are none. Give the split a select share above 0, or set its "
            "folds to cross-validate."
        )
    check_posthoc(run, data)


def _needs_selection(run: RunSpec) -> str:
    """Return what a run needs the validation rows for, as the start of the error message; empty if nothing."""
    if not run.head.classifier.is_closed_form:
        return "Training keeps the best epoch"
    return "posthoc.adjustment.rule=tuned chooses its strength" if run.posthoc.adjustment.rule == "tuned" else ""


def _check_packages(run: RunSpec) -> None:
    if isinstance(run.train.oversample, Smote) and find_spec("imblearn") is None:
        raise ValueError(
            "SMOTE oversampling needs imbalanced-learn, which is not installed. Run: pip install 'frostbench[smote]', "
            "or use train.oversample.kind=gaussian."
        )
