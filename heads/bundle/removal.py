"""Deletion of bundles, which never deletes anything else."""

import re
from pathlib import Path

from frostbench.heads.bundle.files import CARD, ENSEMBLE, PICTURE, TENSORS, BundleError

_FILES = "|".join(map(re.escape, (CARD, TENSORS, PICTURE)))
BUNDLE_FILE = re.compile(rf"{re.escape(ENSEMBLE)}|(?:member-[0-9]+/)?(?:{_FILES})|member-[0-9]+")
"""Relative paths in a bundle."""


def remove(folder: Path) -> None:
    """Delete a bundle if it exists.

    Raises:
        BundleError: the folder holds anything other than a bundle; nothing is deleted then.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    # The card goes last, so that an interrupted removal can be completed.
    inside = sorted(folder.rglob("*"), key=lambda path: (path.name in (CARD, ENSEMBLE), len(path.parts)))
    names = [path.relative_to(folder).as_posix() for path in inside]
    strange = [path for path, name in zip(inside, names, strict=True) if not _is_of_bundle(path, name)]
    if folder.is_symlink() or strange or not {CARD, ENSEMBLE} & set(names):
        reason = f"{folder} holds {strange[0].name}" if strange else f"{folder} is not one"
        raise BundleError(f"Only a bundle can be replaced, but {reason}. Move it elsewhere, or choose another name.")
    for path in inside:
        if not path.is_dir():
            path.unlink()
    for path in [*(path for path in inside if path.is_dir()), folder]:
        path.rmdir()


def _is_of_bundle(path: Path, name: str) -> bool:
    """Return whether a path belongs to a bundle: a regular file, or the folder of a member."""
    is_member = name.startswith("member-") and "/" not in name
    is_plain = path.is_dir() if is_member else path.is_file()
    return is_plain and not path.is_symlink() and BUNDLE_FILE.fullmatch(name) is not None
