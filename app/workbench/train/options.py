"""The options of the form: what does not depend on the values in it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from frostbench.app.forms import values_of
from frostbench.app.rows import Row
from frostbench.app.sides import ROWS, preset_spec, switches
from frostbench.app.workbench.train.form import CACHE_ROW, MOST_SEEDS, SPLIT_ROWS
from frostbench.app.workbench.train.groups import FIRST_PRESETS, title_of
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import AUTO, preset_names
from frostbench.embedcache.splits.making import SplitSpec

USUAL = (
    "columns",
    "head.body.kind",
    "head.body<mlp>.hidden",
    "head.body<mlp>.dropout",
    "head.classifier.kind",
    "head.classifier<arcface>.margin",
    "head.classifier<cosface>.margin",
    "head.classifier<knn>.k",
    "head.classifier<lda>.shrinkage",
    "head.classifier<logreg>.c",
    "head.classifier<ridge>.rule",
    "train.loss.smoothing.epsilon",
    "train.loss.hardmine.keep",
    "train.loss.class_weight.kind",
    "train.loss.logit_adjustment.tau",
    "train.sampler<shuffled>.draw",
    "train.mixup.alpha",
    "train.optim<adamw>.lr",
    "train.optim<sgd>.lr",
    "train.optim<adamw>.weight_decay",
    "train.schedule.epochs",
    "second.kind",
    "posthoc.calibration.kind",
)
"""Keys of the usual settings; about 14 of them exist for any kind of head."""
SPLIT = "Split and seeds"
DATA_KEYS = ("columns", "view_sets", "tta", "background")
"""Options that say which rows and vectors to use: a preset leaves them as they are, and auto is chosen for them."""


def options_tree(workspace: Workspace) -> dict[str, Any]:
    """Return rows, sections, presets, switches and caches for the form."""
    sections: dict[str, list[str]] = {}
    for row in ROWS:
        sections.setdefault(title_of(row), []).append(row.key)
    return {
        "rows": [_tree(row) for row in ROWS],
        "split": [_tree(row) for row in SPLIT_ROWS],
        "split_values": values_of(SPLIT_ROWS, SplitSpec()),
        "usual": list(USUAL),
        "sections": [{"title": title, "keys": keys} for title, keys in sections.items()],
        "presets": [{"name": AUTO, "values": {}}, *map(_preset, _ordered(preset_names()))],
        "switches": [_switch(switch) for switch in switches()],
        "caches": workspace.cache_names(),
        "most_seeds": MOST_SEEDS,
        "data_keys": [CACHE_ROW.key, *DATA_KEYS],
        "store": str(workspace.store),
    }


def _tree(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if name not in ("tier", "is_file", "experimental")} | {
        "experimental": row.tier == "experimental",
        "experimental_choices": list(row.experimental),
    }


def _ordered(names: Sequence[str]) -> list[str]:
    return [*FIRST_PRESETS, *sorted(set(names) - set(FIRST_PRESETS))]


def _preset(name: str) -> dict[str, Any]:
    values = values_of(ROWS, preset_spec(name))
    return {"name": name, "values": {row.key: values[row.key] for row in ROWS if values[row.key] != row.default}}


def _switch(switch: Any) -> dict[str, Any]:
    return {"name": switch.name, "help": switch.help, "sets": {**switch.sets, **switch.needs}}
