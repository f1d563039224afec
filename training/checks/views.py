"""Checks that the views a run uses are present and fit its options."""

from collections.abc import Sequence

from frostbench.heads.trained import view_column
from frostbench.training.data.part import Data
from frostbench.training.data.view_rows import joined_images
from frostbench.training.data.views import rows_of_images
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import NoOversample


def check_views(run: RunSpec, data: Data) -> None:
    """Refuse a run whose views are missing or do not fit it.

    Raises:
        ValueError: a view set is missing, named twice, without a column of the run or with mixed labels that the run
            cannot use; validation or calibration rows are views; or train.views does not suit the number of views.
    """
    _check_sets(run, data)
    if any(part.images is not None for part in (data.select, data.calibrate)):
        raise ValueError("Validation and calibration rows must be one per image, got views. Average those of an image.")
    images = joined_images(run, data)
    if run.train.views != "samples" and images is None:
        raise ValueError(
            f"train.views={run.train.views} needs the image that each training row is a view of, but none is given. "
            "Name view sets in `view_sets`, pass Part(images=...) in Python, or set train.views=samples."
        )
    if run.train.views == "together" and images is not None and rows_of_images(images).shape[1] == 1:
        raise ValueError(
            "train.views=together needs several views per image, but each image has one row. Pass more views, or set "
            "train.views=samples."
        )


def check_finite_views(run: RunSpec, columns: Sequence[str], data: Data) -> None:
    """Refuse NaN and infinity in views that a run trains on or averages over.

    Raises:
        ValueError: a view has them; the message counts the rows and names the first.
    """
    vectors = {
        f"column {column!r} of view set {name!r}": data.views[name].columns[column]
        for name in run.view_sets
        for column in columns
    }
    averaged = [view_column(column, view) for name in run.tta for view in data.averaged[name] for column in columns]
    for role, part in (("select", data.select), ("calibrate", data.calibrate)):
        vectors |= {f"{name!r} of {role} rows": part.also[name] for name in averaged if name in part.also}
    for source, x in vectors.items():
        rows = (~x.isfinite().flatten(1).all(1)).nonzero().squeeze(1).tolist()
        if rows:
            found = f"1 row of {source} holds" if len(rows) == 1 else f"{len(rows)} rows of {source} hold"
            raise ValueError(
                f"Vectors of views must be finite, but {found} NaN or infinity, the first in row {rows[0]}. Make the "
                "views again."
            )


def _check_sets(run: RunSpec, data: Data) -> None:
    absent = [name for name in run.tta if name not in data.averaged]
    if absent:
        raise ValueError(
            f"`tta` must name view sets of the cache, got {absent}; the cache has {sorted(data.averaged)}. Make them "
            "with `frostbench views make --role eval`, or remove them from `tta`."
        )
    missing = [name for name in run.view_sets if name not in data.views]
    if missing:
        raise ValueError(
            f"`view_sets` must name view sets of the cache, got {missing}; the cache has {sorted(data.views)}. Make "
            "them with `frostbench views make`, or remove them from `view_sets`."
        )
    if len(set(run.view_sets)) < len(run.view_sets) or len(set(run.tta)) < len(run.tta):
        raise ValueError(
            f"Each view set must be named once, got view_sets={list(run.view_sets)} and tta={list(run.tta)}. Remove "
            "the repeats."
        )
    columns = run.columns or (data.first_column,)
    without = [c for c in columns for name in run.view_sets if c not in data.views[name].columns]
    without += [c for c in columns if run.tta and not any(name.startswith(f"{c}@") for name in data.select.also)]
    if without and (run.view_sets or len(data.select) > 0):
        raise ValueError(
            f"Views must have the columns of the run, but they hold vectors only and the run reads "
            f"{sorted(set(without))}. Use columns of vectors, or remove view_sets and tta."
        )
    shared = [name for name in run.view_sets if data.views[name].is_shared]
    if shared:
        _check_shared(run, shared)


def _check_shared(run: RunSpec, names: list[str]) -> None:
    """Refuse options that need one label per row, because views mix two images.

    Raises:
        ValueError: the run has such an option.
    """
    train, rule = run.train, f"views of two images ({', '.join(names)}) have two labels per row"
    # Methods that read all rows at once use one label per row.
    single = [f"head.classifier.{option}"] if (option := run.head.classifier.reads_all_at_once) else []
    single += [f"second.kind={run.second.kind}"] if run.second.needs_own_labels else []
    if not isinstance(train.oversample, NoOversample):
        single.append(f"train.oversample.kind={train.oversample.kind}")
    single += [f"train.loss.{name}" for name, method in train.loss.trained.items() if "one_label" in method.needs]
    if single:
        take = "take" if len(single) > 1 else "takes"
        raise ValueError(
            f"{rule}, but {', '.join(single)} {take} one label per row. Use methods trained with gradient steps, "
            "or views of single images."
        )
    if train.views == "averaged":
        raise ValueError(f"{rule}, but train.views=averaged has one label per image. Set train.views=samples.")
    if train.mixing is not None:
        raise ValueError(f"{rule}, and train.{train.mixing.kind} would mix these rows again. Set {train.mixing.off}.")
    check_labels(run, rule, "use views of single images")


def check_labels(run: RunSpec, rule: str, remedy: str) -> None:
    """Refuse loss methods, those of plugins included, that need one label per row; `rule` says why rows have two.

    Raises:
        ValueError: the loss has such a method.
    """
    for name, method in run.train.loss.trained.items():
        if method.needs_single_labels:
            raise ValueError(f"{rule}, but {method.needs_single_labels}. Change train.loss.{name}, or {remedy}.")
