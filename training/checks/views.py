"""Whether the views that a run asks for are there, and fit it."""

from collections.abc import Sequence

from frostbench.heads.trained import view_column
from frostbench.training.data.part import Data
from frostbench.training.data.view_rows import joined_images
from frostbench.training.data.views import rows_of_images
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import NoOversample


def check_views(run: RunSpec, data: Data) -> None:
    """Refuse a run whose views are not there, or do not fit it.

    Raises:
        ValueError: a view set is missing or shares labels that the run cannot share, rows that select or calibrate are
            views, or images have not as many views as it takes to come together.
    """
    _check_sets(run, data)
    if any(part.images is not None for part in (data.select, data.calibrate)):
        raise ValueError("rows that select or calibrate are one for each image, however: views came. Average them.")
    images = joined_images(run, data)
    if run.train.views != "samples" and images is None:
        raise ValueError(
            f"train.views={run.train.views} needs the image that each training row is a view of, however: none came. "
            "Name view sets in `view_sets`, pass Part(images=...) in Python, or set train.views=samples."
        )
    if run.train.views == "together" and images is not None and rows_of_images(images).shape[1] == 1:
        raise ValueError(
            "views come together where an image has several, however: each image has one row. Pass more views, or set "
            "train.views=samples."
        )


def check_finite_views(run: RunSpec, columns: Sequence[str], data: Data) -> None:
    """Refuse views that a run trains on or averages over, and that hold NaN or infinity.

    Raises:
        ValueError: a row of a view does; the message counts such rows and names the first.
    """
    found = {
        f"column {column!r} of view set {name!r}": data.views[name].columns[column]
        for name in run.view_sets
        for column in columns
    }
    seen = [view_column(column, view) for one in run.tta for view in data.averaged[one] for column in columns]
    for role, part in (("select", data.select), ("calibrate", data.calibrate)):
        found |= {f"{name!r} of {role} rows": part.also[name] for name in seen if name in part.also}
    for what, x in found.items():
        rows = (~x.isfinite().flatten(1).all(1)).nonzero().squeeze(1).tolist()
        if rows:
            raise ValueError(
                f"vectors of views are finite, however: {len(rows)} rows of {what} hold NaN or infinity, the first is "
                f"row {rows[0]}. Make the views anew."
            )


def _check_sets(run: RunSpec, data: Data) -> None:
    absent = [name for name in run.tta if name not in data.averaged]
    if absent:
        raise ValueError(
            f"predictions are averaged over view sets of the cache, however: {absent} came and there are "
            f"{sorted(data.averaged)}. Make them by `frostbench views make --role eval`, or drop them from `tta`."
        )
    missing = [name for name in run.view_sets if name not in data.views]
    if missing:
        raise ValueError(
            f"a run trains on view sets of its cache, however: {missing} came and there are {sorted(data.views)}. Make "
            "them by `frostbench views make`, or drop them from `view_sets`."
        )
    if len(set(run.view_sets)) < len(run.view_sets) or len(set(run.tta)) < len(run.tta):
        raise ValueError(
            f"a view set is named once, however: view_sets={list(run.view_sets)} and tta={list(run.tta)}. Drop repeats."
        )
    columns = run.columns or (data.first_column,)
    without = [c for c in columns for name in run.view_sets if c not in data.views[name].columns]
    without += [c for c in columns if run.tta and not any(name.startswith(f"{c}@") for name in data.select.also)]
    if without and (run.view_sets or len(data.select) > 0):
        raise ValueError(
            f"views have vectors alone, however: the run reads {sorted(set(without))}, which no view has. Name columns "
            "of vectors, or drop view_sets and tta."
        )
    shared = [name for name in run.view_sets if data.views[name].is_shared]
    if shared:
        _check_shared(run, shared)


def _check_shared(run: RunSpec, names: list[str]) -> None:
    """Refuse options that need one label per row, under views that mix two images.

    Raises:
        ValueError: the run has such an option.
    """
    train, rule = run.train, f"views of two images ({', '.join(names)}) have two labels per row"
    # What reads all rows at once counts each with its own label.
    single = [f"head.classifier.{option}"] if (option := run.head.classifier.reads_all_at_once) else []
    single += [f"second.kind={run.second.kind}"] if run.second.needs_own_labels else []
    if not isinstance(train.oversample, NoOversample):
        single.append(f"train.oversample.kind={train.oversample.kind}")
    single += [f"train.loss.{name}" for name, method in train.loss.trained.items() if "one_label" in method.needs]
    if single:
        raise ValueError(
            f"{rule}, but {', '.join(single)} takes one label for each row. Use methods trained with gradient steps "
            "alone, or views of single images."
        )
    if train.views == "averaged":
        raise ValueError(f"{rule}, but train.views=averaged has one label for each image. Set train.views=samples.")
    if train.mixing is not None:
        raise ValueError(f"{rule}, and train.{train.mixing.kind} would mix these rows again. Set {train.mixing.off}.")
    check_labels(run, rule, "use views of single images")


def check_labels(run: RunSpec, rule: str, remedy: str) -> None:
    """Refuse loss methods that need one label per row; `rule` says why rows have two.

    Raises:
        ValueError: the loss has such a method, or its plugin is one.
    """
    for name, method in run.train.loss.trained.items():
        if method.needs_single_labels:
            raise ValueError(f"{rule}, but {method.needs_single_labels}. Change train.loss.{name}, or {remedy}.")
