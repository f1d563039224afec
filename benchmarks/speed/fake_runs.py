"""Two finished runs of any size in a run store, without a cache or training, to time comparisons on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import TypeAdapter

from frostbench.benchmarks.runs.record import OUTCOMES, DataFacts, Evaluation, RunRecord
from frostbench.benchmarks.runs.store import run_folder
from frostbench.embedcache.outputs.writing import write_bytes
from frostbench.training.run import RunSpec

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SKILLS = {"fake-a": 0.72, "fake-b": 0.735}
"""Keys of the two runs, and the difficulty below which each predicts a row correctly: about four in five rows."""
UNCALIBRATED = "fake-a"
ROLES = ("select", "test")


def write_fake_runs(
    store: Path,
    rows: int = 20_000,
    classes: int = 200,
    seed: int = 0,
    *,
    test_rows: int | None = None,
    number: int = 0,
) -> tuple[str, str]:
    """Write two single-seed runs that were evaluated on the same rows; return their keys, that of side A first.

    Classes are long-tailed. Each row is its own group, and both runs tend to be right on the same rows. The folders
    contain record.json and outcomes.parquet as finished runs do, but no head.

    Args:
        store: the run store; created if missing.
        rows: number of evaluated rows per role, select and test.
        classes: number of classes, C.
        seed: random seed.
        test_rows: number of test rows; None means `rows`.
        number: number of the pair, part of its keys from 1 on.
    """
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, classes + 1) ** 0.7
    outcomes_by_run: dict[str, list[pd.DataFrame]] = {key: [] for key in SKILLS}
    for i, (role, size) in enumerate(zip(ROLES, (rows, rows if test_rows is None else test_rows), strict=True)):
        labels = rng.choice(classes, size, p=share / share.sum())
        easy = rng.uniform(size=size)
        names = np.array([f"{i * rows + row:07d}" for row in range(size)])
        for key, skill in SKILLS.items():
            outcomes = _outcomes(labels, classes, easy, skill, rng)
            if key == UNCALIBRATED:
                outcomes["confidence_raw"] = outcomes["confidence"]
            outcomes_by_run[key].append(outcomes.assign(id=names, group=names, role=role))
    first, second = (f"{key}-{number}" if number else key for key in SKILLS)
    for key, (plain, frames) in zip((first, second), outcomes_by_run.items(), strict=True):
        record = _record(plain, classes, frames)
        record = replace(record, key=key, data=replace(record.data, split=f"fake-{number}"))
        _write(store, record, pd.concat(frames, ignore_index=True))
    return first, second


def _outcomes(labels: Ints, classes: int, easy: Floats, skill: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return simulated outcomes of a run, with the columns of a record's outcomes but without row names."""
    n = len(labels)
    right = 0.7 * easy + 0.3 * rng.uniform(size=n) < skill
    # Errors fall on neighbouring classes, as if they looked alike.
    predicted = np.where(right, labels, (labels + rng.integers(1, 12, n)) % classes)
    confidence = np.where(right, rng.beta(8, 2, n), rng.beta(4, 3, n)).clip(1 / classes, 1)
    label_p = np.where(right, confidence, (1 - confidence) * rng.uniform(0.05, 0.9, n)).clip(1e-9)
    columns = {"label": labels, "predicted": predicted}
    columns |= {
        "confidence": confidence,
        "confidence_raw": confidence**0.7,
        "log_p": np.log(label_p),
        "brier": (1 - label_p) ** 2,
    }
    return pd.DataFrame(columns)


def _record(key: str, classes: int, outcomes_by_run: Sequence[pd.DataFrame]) -> RunRecord:
    spec = {} if key == UNCALIBRATED else {"posthoc": {"calibration": {"kind": "temperature"}}}
    train = 4 * np.bincount(outcomes_by_run[0]["label"], minlength=classes)
    return RunRecord(
        format_version=1,
        key=key,
        engine=1,
        spec=spec,
        full_spec=RunSpec.model_validate(spec).model_dump(mode="json"),
        data=_facts(train.tolist(), {role: len(some) for role, some in zip(ROLES, outcomes_by_run, strict=True)}),
        evaluations={role: _evaluation(rows) for role, rows in zip(ROLES, outcomes_by_run, strict=True)},
        shot=("medium",) * classes,
        temperature=1.0 if key == UNCALIBRATED else 1.3,
        reason="all_epochs",
        epoch=50,
        seconds=3.0,
        gradient_norm=None,
        curve={"loss": (1.0,) * 50, "macro_f1_fg": (0.5,) * 50},
        environment={"frostbench": "fake"},
    )


def _evaluation(outcomes_by_run: pd.DataFrame) -> Evaluation:
    pairs = outcomes_by_run.value_counts(["label", "predicted"]).reset_index().to_numpy(np.int64)
    return Evaluation({"macro_f1_fg": None}, {}, tuple(map(tuple, pairs.tolist())))


def _facts(train_counts: Sequence[int], rows: dict[str, int]) -> DataFacts:
    return DataFacts(
        cache="fake",
        table="fake",
        split="fake",
        columns=("fake",),
        class_names=tuple(f"class {c:03d}" for c in range(len(train_counts))),
        background=(),
        rows={"train": sum(train_counts)} | rows,
        groups={"train": sum(train_counts)} | rows,
        train_counts=tuple(train_counts),
        missing={},
        small=(),
        forced=(),
        warnings=(),
    )


def _write(store: Path, record: RunRecord, outcomes: pd.DataFrame) -> None:
    folder = run_folder(store, record.key)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes[list(OUTCOMES)].to_parquet(folder / "outcomes.parquet", index=False)
    write_bytes(folder / "record.json", TypeAdapter(RunRecord).dump_json(record, indent=1))
