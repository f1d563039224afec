"""Record what every case of the catalogue computes: loss of each step, events, final weights and run key.

Bit for bit on one machine, with one thread:

    OMP_NUM_THREADS=1 PYTHONPATH=.:tests/shared python tests/shared/recording.py BEFORE.json
    (change the code)
    OMP_NUM_THREADS=1 PYTHONPATH=.:tests/shared python tests/shared/recording.py AFTER.json BEFORE.json

Processors round differently, so `tests/training/test_golden.py` compares a few cases up to rounding, and all run keys.
Its file is made anew by `--golden` after a change that is meant:

    PYTHONPATH=.:tests/shared python tests/shared/recording.py --golden
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from catalogue import BASE, CASES, MLP, data, folder, merged
from conformance import three

from frostbench.benchmarks.settings.parsing import run_key
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import ENGINE_VERSION, fit
from frostbench.training.engine.stack import Stack
from frostbench.training.run import RunSpec

VIEWS: dict[str, dict[str, Any]] = {
    "views: consistency": {"views": "together", "loss": {"consistency": {"weight": 0.7}}},
    "views: contrast": {"views": "together", "loss": {"supcon": {"weight": 0.5}}},
    "views: class batches": {"views": "together", "sampler": {"kind": "pxk", "classes": 3, "rows": 4}},
    "views: averaged": {"views": "averaged"},
}


def keyed(run: RunSpec) -> str:
    """The run's key on a table and a split that do not matter here; empty where it holds temporary files."""
    return "" if str(folder()) in run.model_dump_json() else run_key(run, "table", "split", ENGINE_VERSION)


def recorded(runs: list[RunSpec], rows: Data) -> list[dict[str, Any]]:
    """What happened to each run: losses of its steps, its events, and a digest of the head it ended with."""
    with _steps() as losses:
        events = list(fit(runs, rows))
    found: list[dict[str, Any]] = [{"key": keyed(run), "epochs": []} for run in runs]
    for event in events:
        if isinstance(event, Epoch):
            seen = asdict(event)
            found[event.run]["epochs"].append([seen.pop("loss"), seen["metrics"], seen["logs"]])
        elif isinstance(event, Finished):
            found[event.run] |= {"reason": event.reason, "epoch": event.epoch, "chosen": asdict(event.chosen)}
            found[event.run] |= _of_head(event.head, rows)
        else:
            found[event.run].setdefault("events", []).append(repr(event))
    return [one | {"losses": losses} for one in found]


@contextmanager
def _steps() -> Iterator[list[list[float]]]:
    """The losses [K] of each step that any stack takes meanwhile."""
    losses: list[list[float]] = []
    step = Stack.step

    def noted(self: Stack, *args: Any, **more: Any) -> torch.Tensor:
        found = step(self, *args, **more)
        losses.append(found.tolist())
        return found

    Stack.step = noted
    try:
        yield losses
    finally:
        Stack.step = step


def _of_head(head: Any, rows: Data) -> dict[str, Any]:
    """Digest of a head's tensors, and what it says of the first selection rows."""
    digest = hashlib.sha256()
    for _, tensor in sorted(head.head.state_dict().items()):
        digest.update(tensor.detach().numpy().tobytes())
    digest.update(head.shift.numpy().tobytes())
    columns = {name: rows.select.columns[name] for name in head.columns}
    says = head.log_probabilities(columns).clamp(min=-1e30)
    return {"weights": digest.hexdigest(), "says": says[:3].double().tolist(), "temperature": head.temperature}


def viewed(rows: Data) -> Data:
    """The rows with a second view of each training image."""
    part, generator = rows.train, torch.Generator().manual_seed(7)
    noise = {n: 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype) for n, x in part.columns.items()}
    columns = {name: torch.cat([x, x + noise[name]]) for name, x in part.columns.items()}
    images = torch.arange(len(part)).repeat(2)
    return replace(rows, train=Part(columns, part.labels.repeat(2), images=images))


def everything() -> Iterator[tuple[str, RunSpec, bool]]:
    """Name and run of every case, and whether it sees several views."""
    yield from ((name, run, False) for name, run in CASES.items())
    for name, train in VIEWS.items():
        yield name, RunSpec.model_validate(merged(BASE, MLP, {"train": train})), True


def record() -> dict[str, Any]:
    """Every case alone in float32, and as a stack of three in float64."""
    single, exact, found = data(torch.float32), data(torch.float64), {}
    for name, run, has_views in everything():
        rows = [viewed(part) if has_views else part for part in (single, exact)]
        found[name] = {"alone": recorded([run], rows[0]), "stack": recorded(three(run), rows[1])}
    return found


GOLDEN = Path(__file__).parents[1] / "training" / "golden.json"
TRACED = (
    "everything",
    "running temperatures of mixed rows",
    "smoothed by norms of mixed rows",
    "calibrated, mined and mixed",
    "calibrated under a prior",
    "temperatures in a margin",
    "bcl with a cosine",
    "train.loss.point=adafocal",
    "train.loss.lade",
    "train.loss.crl",
    "second=lws",
    "views: consistency",
)
"""Cases whose losses the golden file holds: between them they have every part of an objective with a state."""


def golden() -> dict[str, Any]:
    """The run keys of all cases, and of a few the losses of each step and what the heads say, in float64."""
    rows = data(torch.float64)
    cases = {name: (run, has_views) for name, run, has_views in everything()}
    keys = {name: key for name, (run, _) in cases.items() if (key := keyed(run))}
    traces = {}
    for name in TRACED:
        run, has_views = cases[name]
        found = recorded(three(run), viewed(rows) if has_views else rows)
        traces[name] = {"losses": found[0]["losses"], "says": [one["says"] for one in found]}
    return {"keys": keys, "traces": traces}


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of the cases that are not the same, and where."""
    found = [f"{name}: only in one" for name in sorted(before.keys() ^ after.keys())]
    for name in sorted(before.keys() & after.keys()):
        for kind in ("alone", "stack"):
            for place, (old, new) in enumerate(zip(before[name][kind], after[name][kind], strict=True)):
                keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
                found += [f"{name}, {kind} {place}: {', '.join(keys)}"] if keys else []
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "--golden":
        GOLDEN.write_text(json.dumps(golden(), indent=1) + "\n")
        sys.exit()
    now = json.loads(json.dumps(record()))
    Path(sys.argv[1]).write_text(json.dumps(now, indent=0))
    if len(sys.argv) > 2:
        wrong = differing(json.loads(Path(sys.argv[2]).read_text()), now)
        sys.stdout.write("\n".join([*wrong, f"{len(now)} cases, {len(wrong)} differences\n"]))
        sys.exit(bool(wrong))
