"""Class weights from a file, such as text embeddings of class names by a CLIP text tower."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frostbench.heads.file_hash import file_sha256


def text_weights(file: str, sha256: str, class_names: tuple[str, ...]) -> Tensor:
    """Return float32 weights [C, D] of the classes, looked up by name, in the order of class_names.

    The file is an .npz with `weights` [names, D] and `class_names` [names] of strings; further names are ignored.

    Raises:
        ValueError: class_names is empty, or the file is missing or invalid, does not match sha256, or lacks a class.
    """
    path = Path(file)
    if not class_names:
        raise ValueError("Class weights are looked up by name, but the rows have no class names. Pass class_names.")
    if not path.is_file():
        raise ValueError(
            f"Class weights need an .npz file, but {file!r} does not exist. Write it, or correct the path."
        )
    found = file_sha256(path)
    if sha256 and found != sha256:
        raise ValueError(
            f"{file} must have the SHA-256 {sha256}, but has {found}. Restore that file, or clear sha256 to accept the "
            "new one."
        )
    return _rows_by_name(path, class_names)


def _rows_by_name(path: Path, class_names: tuple[str, ...]) -> Tensor:
    weights, names = _arrays(path)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{path} must name each class once, but {twice} are repeated. Keep one row of each.")
    missing = [name for name in class_names if name not in names]
    if missing:
        raise ValueError(
            f"{path} must hold weights for all {len(class_names)} classes, but {missing} are missing. "
            f"It holds {names[:20]}. Add them, or rename the classes to match."
        )
    index = {name: row for row, name in enumerate(names)}
    return torch.from_numpy(weights[[index[name] for name in class_names]].astype(np.float32))


def _arrays(path: Path) -> tuple[np.ndarray[Any, Any], list[str]]:
    # No pickles: the file may be untrusted.
    with np.load(path, allow_pickle=False) as arrays:
        lacking = {"weights", "class_names"} - set(arrays.files)
        if lacking:
            raise ValueError(
                f"{path} must hold the arrays weights and class_names, got {arrays.files}. "
                "Write it with numpy.savez(file, weights=..., class_names=...)."
            )
        weights, names = arrays["weights"], [str(name) for name in arrays["class_names"]]
    if weights.ndim != 2 or len(weights) != len(names) or not np.isfinite(weights).all():
        raise ValueError(
            f"Weights in {path} must be finite and [{len(names)}, D], one row per name, got {list(weights.shape)}"
            f"{'' if np.isfinite(weights).all() else ' with NaN or infinity'}. Write the file again."
        )
    return weights, names
