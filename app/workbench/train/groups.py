"""Sections of the form."""

from frostbench.app.rows import Row
from frostbench.heads.titles import label_of
from frostbench.training.losses.loss import catalogue
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import StageSpec


def _group(annotation: object) -> str:
    """Return the section that a Spec names as its own, or ""."""
    return str(getattr(annotation, "group", ""))


SAMPLING = "Sampling and augmentation"
TITLES = {
    "columns": "Data",
    "view_sets": SAMPLING,
    "tta": "After training",
    "background": "Data",
    "shots": "Data",
    "head": "Head",
    "train.loss": "Loss",
    "train.loss.class_weight": "Class balance",
    "train.loss.weight_schedule": "Class balance",
    "train.loss.count": "Class balance",
    "train.oversample": SAMPLING,
    "train.sampler": SAMPLING,
    "train.frofa": SAMPLING,
    "train": "Training",
    "order_seed": "Training",
    "second": "Second stage",
    "posthoc": "After training",
    **{f"train.{name}": group for name, f in StageSpec.model_fields.items() if (group := _group(f.annotation))},
    **{f"train.loss.{field}": kinds[0].group for field, kinds in catalogue().items()},
}
"""Group titles by path prefix; the longest prefix wins, and the default is the label of the path's first part."""
FIRST_PRESETS = ("plain", "baseline", "full")
"""Presets that the form lists first."""


def title_of(row: Row) -> str:
    """Return the title of a row's section."""
    parts = row.path.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in TITLES:
            return TITLES[".".join(parts[:length])]
    return label_of(RunSpec, parts[0])
