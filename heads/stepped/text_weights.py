"""Class weights from a file, such as the text embeddings of class names from a CLIP text tower."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def text_weights(file: str, sha256: str, class_names: tuple[str, ...]) -> Tensor:
    """[C, D] float32 weights of the classes, in the order of class_names, looked up by name.

    The file is a .npz with `weights` [names, D] and `class_names` [names] of strings; names beyond ours are ignored.

    Raises:
        ValueError: the file is missing, has changed since sha256 was noted, or lacks a class.
    """
    path = Path(file)
    if not class_names:
        raise ValueError("class weights are found by name, however: the rows carry no class names. Pass class_names.")
    if not path.is_file():
        raise ValueError(f"class weights come from a .npz file, however: {file!r} is none. Write it, or fix the path.")
    found = file_sha256(path)
    if sha256 and found != sha256:
        raise ValueError(
            f"{file} must be the file whose SHA-256 is {sha256}, however: it has {found}. "
            "Restore that file, or clear sha256 to take the new one."
        )
    return _rows_by_name(path, class_names)


def with_file_hash(tree: Any) -> Any:
    """A spec's raw fields with sha256 filled in from the file, where the file is there and no hash is given.

    So the spec, and with it the run's key, names the weights and not only the path they were read from.
    """
    file = tree.get("file") if isinstance(tree, dict) else None
    if isinstance(file, str) and not tree.get("sha256") and Path(file).is_file():
        return tree | {"sha256": known_sha256(Path(file))}
    return tree


def known_sha256(path: Path) -> str:
    """SHA-256 of a file, which is read again only where size or times say that it was written: forms ask often."""
    now = path.stat()
    return _sha256_of(path, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


@lru_cache(maxsize=64)
def _sha256_of(path: Path, *_written: int) -> str:
    return file_sha256(path)


def file_sha256(path: Path) -> str:
    """SHA-256 of the file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rows_by_name(path: Path, class_names: tuple[str, ...]) -> Tensor:
    weights, names = _arrays(path)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{path} must name each class once, however: {twice} come twice. Keep one row of each.")
    missing = [name for name in class_names if name not in names]
    if missing:
        raise ValueError(
            f"{path} must hold weights for every class, however: {missing} are missing of {len(class_names)}. "
            f"It holds {names[:20]}. Add them, or rename the classes to match."
        )
    place = {name: at for at, name in enumerate(names)}
    return torch.from_numpy(weights[[place[name] for name in class_names]].astype(np.float32))


def _arrays(path: Path) -> tuple[np.ndarray[Any, Any], list[str]]:
    # No pickles: the file may come from elsewhere.
    with np.load(path, allow_pickle=False) as arrays:
        lacking = {"weights", "class_names"} - set(arrays.files)
        if lacking:
            raise ValueError(
                f"{path} must hold the arrays weights and class_names, however: it holds {arrays.files}. "
                "Write it with numpy.savez(file, weights=..., class_names=...)."
            )
        weights, names = arrays["weights"], [str(name) for name in arrays["class_names"]]
    if weights.ndim != 2 or len(weights) != len(names) or not np.isfinite(weights).all():
        raise ValueError(
            f"weights of {path} must be finite and [{len(names)}, D], one row per name, however: they are "
            f"{list(weights.shape)}{'' if np.isfinite(weights).all() else ' with NaN or infinity'}. Write them anew."
        )
    return weights, names
