"""What of a trained head follows its logits, read from its bundle with numpy alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from frostbench.heads.bundle.files import CARD, TENSORS, BundleError, read_card_tree, read_stated

TEMPERATURES = ("auto", "temperature", "none")
"""Kinds of calibration that divide logits by one number, or leave them as they are."""
MOST_KEPT = 8
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """Numbers of a head, and the kinds of its post-hoc layers.

    Attributes:
        class_names: C names.
        background: indices of classes that foreground F1 leaves out.
        counts: [C] training rows.
        prior: [C] class prior that the logits contain; 0 for classes without training rows.
        calibration: kind of the calibration.
        thresholds: kind of the thresholds.
        shift: kind of the shift.
        temperature: fitted temperature, 1 without one.
        bias: [C] shifts minus log thresholds, or None.
        logits: [M, C] logits of the calibration rows, or None.
        labels: [M] labels of the calibration rows, or None.
    """

    class_names: tuple[str, ...]
    background: tuple[int, ...]
    counts: npt.NDArray[np.int64]
    prior: Floats
    calibration: str
    thresholds: str
    shift: str
    temperature: float
    bias: Floats | None
    logits: npt.NDArray[np.float32] | None
    labels: npt.NDArray[np.int64] | None

    @property
    def has_temperature(self) -> bool:
        """Whether calibration is at most a temperature, which can be refitted at once."""
        return self.calibration in TEMPERATURES

    @property
    def why_no_prior(self) -> str:
        """Why the class prior cannot be changed at once, or "" if it can."""
        if not self.has_temperature:
            return (
                f"Its calibration ({self.calibration}) would have to be fitted again for another class prior, which "
                "takes longer than a moment. Set posthoc.deploy_prior and train it."
            )
        if self.thresholds != "none" or self.shift == "wanted":
            return (
                "Its thresholds or shifts are fitted, and would have to be fitted again for another class prior. Set "
                "posthoc.deploy_prior and train it."
            )
        return ""

    @property
    def why_no_cutoffs(self) -> str:
        """Why cut-offs cannot be added, or "" if they can."""
        if self.shift != "wanted":
            return ""
        return "Its shifts are fitted to a required recall or precision, which cut-offs would undo. Train it without."


def read_numbers(folder: Path) -> HeadNumbers:
    """Read the numbers of a bundle of one head; they are checked against its digests once and then kept in memory.

    Raises:
        BundleError: the folder is not a bundle of one head, or was changed.
    """
    try:
        state = (folder / CARD).stat()
    except OSError as error:
        raise BundleError(
            f"Decisions need the run's own head, but {folder} has none: an ensemble keeps no head, and older runs may "
            "lack it. Choose a setting whose heads are kept."
        ) from error
    return _read(folder, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=MOST_KEPT)
def _read(folder: Path, _modified: int, _size: int) -> HeadNumbers:
    card = read_card_tree(folder, CARD)
    try:
        content = read_stated(folder, TENSORS, card["sha256"][TENSORS], card.get("sizes", {}).get(TENSORS))
        return _numbers_of(card, load_arrays(content))
    except (KeyError, TypeError, ValueError, SafetensorError, json.JSONDecodeError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(
            f"The numbers of a head must match its card, but in {folder} they do not ({error})."
        ) from error


def _numbers_of(card: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> HeadNumbers:
    layers, old = card.get("posthoc", {}), card["format_version"] == 1
    kinds = {name: layers.get(name, {}).get("kind", "none") for name in ("calibration", "thresholds", "shift")}
    if old:  # format 1 had a temperature in the card as its only layer
        kinds["calibration"] = "temperature" if card["calibrated"] or card["temperature"] != 1 else "auto"
    temperature = card["temperature"] if old else float(arrays.get("calibrator.temperature", np.array(1.0)))
    return HeadNumbers(
        class_names=tuple(card["class_names"]),
        background=tuple(card.get("background", ())),
        counts=arrays["prior.counts"].astype(np.int64),
        prior=arrays["prior.implied"].astype(np.float64),
        temperature=float(temperature),
        bias=arrays.get("decision.bias"),
        logits=arrays.get("calibration.logits"),
        labels=arrays.get("calibration.labels"),
        **kinds,
    )
