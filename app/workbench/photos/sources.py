"""From a folder that a person named to the images in it; used by the processes that look, measure and embed."""

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from frostbench.app.workbench.requests import RequestError
from frostbench.embedcache.items import Listing
from frostbench.embedcache.sources.source import kind_of, list_source
from frostbench.embedcache.sources.walking import LeftOut, entries, followed, is_image
from frostbench.embedcache.splits.role_names import role_called

MANIFESTS = ("manifest.csv", "manifest.parquet")
"""Tables that list the images of a folder, instead of its sub-folders."""


def list_photos(root: Path, name: str, group_regex: str) -> tuple[Path, Listing]:
    """Return the source in a folder, relative to the root, and its listing.

    Args:
        root: folder of the page, absolute and without links.
        name: folder below it.
        group_regex: see `list_source`; empty if there is none.

    Raises:
        RequestError: an image is outside the root, after resolving links.
        ValueError: the folder cannot be listed.
        ModuleNotFoundError: the source needs a package that is not installed.
    """
    source = source_in(root / name)
    listing = list_source(source, group_regex=group_regex or None)
    check_inside(listing, root)
    return source.relative_to(root), listing


def source_in(folder: Path) -> Path:
    """Return the manifest of a folder, or the folder whose sub-folders are the classes.

    That is the folder itself, except where it holds nothing but one other folder that is divided further, as zip files
    do that wrap everything into one folder.

    Raises:
        OSError: the folder cannot be read.
    """
    for name in MANIFESTS:
        if (folder / name).is_file():
            return folder / name
    found = list(entries(folder, folder, LeftOut()))
    if len(found) != 1 or not followed(found[0]).is_dir() or role_called(found[0].name) or kind_of(folder) != "folder":
        return folder
    inner = Path(found[0].path)
    inside = list(entries(inner, inner, LeftOut()))
    is_divided = any(followed(one).is_dir() for one in inside) and not any(is_image(one.name) for one in inside)
    return source_in(inner) if is_divided or any(one.name in MANIFESTS for one in inside) else folder


def check_inside(listing: Listing, root: Path) -> None:
    """Check that all images are below the root, after resolving links.

    Raises:
        RequestError: one is not.
    """

    @lru_cache(maxsize=10_000)
    def is_inside(path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(root)

    for item in listing.items:
        if item.path is not None and not is_inside(item.path if item.path.is_symlink() else item.path.parent):
            raise RequestError(
                f"The page only reads images below {root}, but {item.id} is at {os.path.realpath(item.path)}. Copy the "
                "images there, or use `frostbench embed` on the command line."
            )


def some_of(listing: Listing, most: int) -> Listing:
    """Return a listing of at most `most` of its images, evenly spread."""
    n = min(most, len(listing.items))
    return replace(listing, items=tuple(listing.items[i * len(listing.items) // n] for i in range(n)))
