"""A run store with any number of records, without training, to time the list of runs on."""

from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from frostbench.benchmarks.runs.record import DataFacts, Evaluation, RunRecord
from frostbench.benchmarks.runs.store import run_folder
from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.heads.spec import canonical
from frostbench.training.run import RunSpec

VALUES: Mapping[str, tuple[Any, ...]] = {
    "head.classifier.kind": ("linear", "arcface"),
    "train.optim.lr": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "train.optim.weight_decay": tuple(round(0.002 * i, 3) for i in range(1, 11)),
    "train.loss.smoothing.epsilon": tuple(round(0.01 * i, 2) for i in range(1, 21)),
    "train.ema": (0.0, 0.9, 0.95, 0.99, 0.999),
}
"""Values of the options; each combination is a setting, so there are 10,000."""
METRICS = ("macro_f1_fg", "weighted_f1_fg", "accuracy", "recall_few", "ece", "nll")
CLASSES, EPOCHS = 20, 50


def write_many_runs(store: Path, number: int = 10_000) -> None:
    """Write records of so many settings with one seed each, as a search over five options leaves them.

    The folders contain no outcomes and no head. Records are not flushed to disk one by one, which would take minutes.
    """
    rng = np.random.default_rng(0)
    for i, spec in enumerate(islice(_specs(), number)):
        record = _record(f"many-{i:05d}", spec, rng)
        folder = run_folder(store, record.key)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "record.json").write_bytes(TypeAdapter(RunRecord).dump_json(record))


def _specs() -> Iterator[dict[str, Any]]:
    for values in product(*VALUES.values()):
        yield dict(zip(VALUES, values, strict=True))


def _record(key: str, changes: Mapping[str, Any], rng: np.random.Generator) -> RunRecord:
    run = parse(RunSpec, with_changes(RunSpec().model_dump(mode="json"), changes))
    metrics: dict[str, float | None] = {name: round(float(rng.uniform(0.4, 0.9)), 6) for name in METRICS}
    per_class = dict.fromkeys(("support", "predicted", "precision", "recall", "f1"), (0.5,) * CLASSES)
    return RunRecord(
        format_version=1,
        key=key,
        engine=1,
        spec=canonical(run),
        full_spec=run.model_dump(mode="json"),
        data=_facts(),
        evaluations={role: Evaluation(metrics, per_class, ()) for role in ("select", "test")},
        shot=("medium",) * CLASSES,
        temperature=1.0,
        reason="all_epochs",
        epoch=EPOCHS,
        seconds=round(float(rng.uniform(1, 9)), 2),
        gradient_norm=None,
        curve={"loss": (1.0,) * EPOCHS, "macro_f1_fg": (0.5,) * EPOCHS},
        environment={"frostbench": "fake"},
    )


def _facts() -> DataFacts:
    rows = {"train": 50 * CLASSES, "select": 10 * CLASSES, "test": 10 * CLASSES}
    return DataFacts(
        cache="fake",
        table="fake",
        split="fake",
        columns=("fake",),
        class_names=tuple(f"class {c:03d}" for c in range(CLASSES)),
        background=(),
        rows=rows,
        groups=rows,
        train_counts=(50,) * CLASSES,
        missing={},
        small=(),
        forced=(),
        warnings=(),
    )
