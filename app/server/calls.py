"""The functions that programs may call: what the page can do, with typed arguments.

They are those of the tabs (`frostbench.app.workbench.handlers`), waited for where a tab would ask again and again.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from frostbench.app.sides import ROWS
from frostbench.app.starting import submit_one
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import AUTO, Tree, leaves, merge, parse, preset, preset_names, with_changes
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.benchmarks.settings.plugins import check_allowed
from frostbench.training.run import RunSpec

Answers = Mapping[str, Callable[[Any], Any]]
PAUSE_SECONDS = 0.3


class Calls:
    """Functions for programs; every one raises ValueError or OSError with a sentence that says what to do."""

    def __init__(self, workspace: Workspace, answers: Answers) -> None:
        self._workspace = workspace
        self._answers = answers

    def all(self) -> list[Callable[..., Any]]:
        """Return the functions; their names are those of the endpoints."""
        return [
            self.data_sets, self.labels_to_check, self.correct_labels, self.train, self.jobs, self.cancel, self.runs,
            self.compare, self.predict, self.export,
        ]  # fmt: skip

    def data_sets(self) -> list[dict[str, Any]]:
        """List the caches of the page: name, images and classes."""
        found: list[dict[str, Any]] = self._answers["caches"](None)["caches"]
        return found

    def labels_to_check(self, cache: str, most: int = 100) -> dict[str, Any]:
        """List the images of a cache whose label is most doubtful, and the number of near-copies across the split."""
        overview, found = self._answers["data"]({"cache": cache}), self._waited("checks", {"cache": cache})
        names, suspects = overview["class_names"], found["suspects"]
        columns = zip(suspects["rows"], suspects["suggested"], suspects["confidence"], strict=True)
        rows = [
            {
                "id": overview["ids"][row],
                "label": names[overview["labels"][row]],
                "suggested": names[suggested],
                "confidence_in_label": confidence,
            }
            for row, suggested, confidence in columns
        ]
        return {"number": len(rows), "images": rows[:most], "near_copies": len(found["copies"]["rows"])}

    def correct_labels(self, cache: str, labels: dict[str, str], who: str = "") -> dict[str, Any]:
        """Correct labels of a cache, as image id and new label; they go into NAME.labels.csv beside it."""
        self._answers["correct"]({"cache": cache, "changes": labels, "who": who})
        return {"corrected": len(labels)}

    def train(
        self,
        cache: str,
        preset: str = AUTO,
        settings: dict[str, Any] | None = None,
        seeds: int = 3,
        split: dict[str, Any] | None = None,
    ) -> dict[str, str]:
        """Start training a preset with changed settings (dotted keys), or find its runs; return the job's ID."""
        return {"job": submit_one("B", self._bench(cache, preset, settings or {}, seeds, split or {}), self._workspace)}

    def jobs(self) -> dict[str, Any]:
        """List all unfinished jobs and the newest ended ones, with their progress."""
        found: dict[str, Any] = self._answers["train-jobs"](None)
        return found

    def cancel(self, job: str) -> dict[str, Any]:
        """Cancel a job; the best finished epoch is kept."""
        found: dict[str, Any] = self._answers["train-cancel"]({"job": job})
        return found

    def runs(self) -> dict[str, Any]:
        """List all trained settings of all stores, with their validation metrics, and what could not be read."""
        found: dict[str, Any] = self._answers["runs"](None)
        return found

    def compare(self, store: str, a: list[str], b: list[str], test: bool = False) -> dict[str, Any]:
        """Compare two settings, given as run keys, on validation images, or on test images, which is counted."""
        found: dict[str, Any] = self._answers["compare"]({"store": store, "a": a, "b": b, "reveal": test})
        return found

    def predict(self, setting: str, folder: str, temperature: float = 1.0, prior: float = 0.0) -> dict[str, Any]:
        """Predict the images of a folder below that of the page with the head of a setting; wait for the result."""
        head = self._setting(setting)
        started = self._answers["predict"]({"heads": [head], "folder": folder})
        asked = {"set": started["set"], "temperature": temperature, "prior": prior}
        while (found := self._answers["predicted"](asked))["state"] == "predicting":
            time.sleep(PAUSE_SECONDS)
        if found["state"] == "failed":
            raise RequestError(found["error"])
        told: dict[str, Any] = found
        return told

    def export(self, setting: str, kind: str = "measured") -> dict[str, Any]:
        """Make the zip file of a setting's head (measured, refitted or ensemble); return its address on this server."""
        head = self._setting(setting)
        keys = [head["key"], *(key for key in head["keys"] if key != head["key"])]
        return self._waited("bundle", {"store": head["store"], "keys": keys, "here": head["here"], "kind": kind})

    def _setting(self, wanted: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self._answers["heads"](None)["settings"]
        for setting in found:
            if setting["id"] == wanted:
                return setting
        raise RequestError(f"No setting {wanted!r} keeps a head. Those that do are in `runs`; train it again.")

    def _waited(self, name: str, request: Any) -> dict[str, Any]:
        """Ask until the answer is no longer being computed."""
        while (found := self._answers[name](request)).get("state") == "computing":
            time.sleep(PAUSE_SECONDS)
        told: dict[str, Any] = found
        return told

    def _bench(self, cache: str, start: str, settings: Tree, seeds: int, split: Tree) -> Tree:
        """Return the one-row bench that trains a preset with changed settings.

        Raises:
            ValueError: a setting is not allowed, or names a file that the page may not read.
        """
        if start not in (AUTO, *preset_names()):
            raise RequestError(f"A preset must be one of {[AUTO, *preset_names()]}, got {start!r}.")
        files = {row.path for row in ROWS if row.is_file}
        for path, value in leaves({**settings, **split}).items():
            if path in files | {"roles_from"} and value:
                self._workspace.file(str(value))
        if start != AUTO:
            run = parse(RunSpec, with_changes(merge(RunSpec().model_dump(mode="json"), preset(start)), settings))
            check_allowed(run, self._workspace.plugins)
        bench: Tree = {"name": "B", "caches": [str(self._workspace.cache(cache))], "store": str(self._workspace.store)}
        bench |= {"preset": start, "base": dict(settings), "seeds": list(range(seeds)), "split": dict(split)}
        parse(BenchSpec, bench | ({"preset": "plain", "base": {}} if start == AUTO else {}))
        return bench
