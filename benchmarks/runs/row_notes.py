"""Notes on the options of a row that depend on the labels, groups and roles of its data."""

import numpy as np
import torch
from torch import Tensor

from frostbench.benchmarks.runs.view_sets import rows_of_pass
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.training.checks.corrections import correction_notes
from frostbench.training.checks.notes import epoch_notes, notes_for, order_notes, posthoc_notes
from frostbench.training.checks.posthoc import ROLES, rows_of_posthoc
from frostbench.training.data.few_shot import drawn_rows
from frostbench.training.run import RunSpec


def notes_on_row(table: FeatureTable, split: Split, spec: RunSpec) -> tuple[str, ...]:
    """Return notes on a run's options given the data that it would be trained on."""
    labels, groups = torch.from_numpy(table.labels[split.roles == "train"]), _train_groups(table, split)
    rows = drawn_rows(spec, labels)
    if rows is not None:
        labels, groups = labels[rows], None if groups is None else groups[rows]
    notes = notes_for(spec, rows_of_pass(table, spec, len(labels))) + order_notes(spec, labels)
    notes += epoch_notes(spec, *_selection(table, split, spec))
    notes += posthoc_notes(spec, _posthoc_labels(table, split, spec))
    return notes + correction_notes(spec, labels, len(table.class_names), groups)


def _train_groups(table: FeatureTable, split: Split) -> Tensor | None:
    """Return the group number of each training row, or None if the table has no groups."""
    if not table.has_groups:
        return None
    groups = merge_groups(table.groups, table.content)[split.roles == "train"]
    return torch.from_numpy(np.unique(groups, return_inverse=True)[1])


def _selection(table: FeatureTable, split: Split, spec: RunSpec) -> tuple[Tensor, tuple[int, ...]]:
    """Return the labels of the rows that epochs are chosen by, and the indices of the background classes."""
    chosen = split.roles == ("select" if split.folds is None else "train")
    background = tuple(table.class_names.index(n) for n in spec.background if n in table.class_names)
    return torch.from_numpy(table.labels[chosen]), background


def _posthoc_labels(table: FeatureTable, split: Split, spec: RunSpec) -> Tensor:
    """Return the labels of the rows that calibration and decisions are fitted to."""
    labels, roles = table.labels, split.roles
    if split.folds is not None:
        return torch.from_numpy(labels[roles == "train"])
    trained = np.isin(labels, labels[roles == "train"])
    groups = len(np.unique(merge_groups(table.groups, table.content)[roles == "select"]))
    name = rows_of_posthoc(spec.posthoc, int((trained & (roles == "calibrate")).sum()), groups)
    return torch.from_numpy(labels[trained & np.isin(roles, ROLES[name])])
