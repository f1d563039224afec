"""Sets of images that are being predicted: which images, how far, and what went wrong."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostbench.app.workbench.predict.choice import MOST_SETS, Choice
from frostbench.app.workbench.predict.process import PredictionProcess
from frostbench.app.workbench.requests import RequestError

BATCH = 32


@dataclass
class PredictionSet:
    """Images that are predicted one batch after another.

    Attributes:
        name: random name, by which the page asks for results.
        choices: the heads.
        titles: name of the setting of each head.
        files: path and original name of each image.
        notes: sentences about files that were skipped.
        done: number of images predicted so far.
        state: predicting, done, stopped or failed.
        error: why it failed.
        facts: what is known of each head, see `engine.begin`.
    """

    name: str
    choices: Sequence[Choice]
    titles: Sequence[str]
    files: Sequence[tuple[Path, str]]
    notes: Sequence[str] = ()
    done: int = 0
    state: str = "predicting"
    error: str = ""
    facts: list[dict[str, Any]] = field(default_factory=list)


class PredictionSets:
    """Starts sets and keeps the latest ones, as many as the process that predicts keeps."""

    def __init__(self, device: str, plugins: tuple[Path, ...]) -> None:
        self.process = PredictionProcess()
        self._device = device
        self._plugins = plugins
        self._sets: OrderedDict[str, PredictionSet] = OrderedDict()
        self._lock = threading.Lock()

    def start(
        self,
        choices: Sequence[Choice],
        titles: Sequence[str],
        files: Sequence[tuple[Path, str]],
        notes: Sequence[str],
    ) -> str:
        """Start predicting images with heads and return the name of the set."""
        made = PredictionSet(secrets.token_hex(8), choices, titles, files, notes)
        with self._lock:
            self._sets[made.name] = made
            while len(self._sets) > MOST_SETS:
                _, old = self._sets.popitem(last=False)
                old.state = "stopped"
        threading.Thread(target=self._predict, args=(made,), daemon=True).start()
        return made.name

    def get(self, name: Any) -> PredictionSet:
        """Return a set.

        Raises:
            RequestError: it is not, or no longer, kept.
        """
        with self._lock:
            found = self._sets.get(name) if isinstance(name, str) else None
        if found is None:
            raise RequestError("These predictions are no longer kept. Predict again.")
        return found

    def stop(self, name: Any) -> None:
        """Stop a set after the current batch; what was predicted is kept."""
        found = self.get(name)
        if found.state == "predicting":
            found.state = "stopped"

    def _predict(self, made: PredictionSet) -> None:
        try:
            made.facts = self.process.call("predict.engine.begin", made.name, made.choices, self._device, self._plugins)
            for start in range(0, len(made.files), BATCH):
                if made.state != "predicting":
                    return
                batch = made.files[start : start + BATCH]
                self.process.call("predict.engine.add", made.name, batch)
                made.done += len(batch)
            made.state = "done"
        # Whatever a backbone, a plugin or the system raises is told on the page.
        except Exception as error:
            made.state, made.error = "failed", str(error) or type(error).__name__
