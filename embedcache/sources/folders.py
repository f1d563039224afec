"""Image folders: the first level names the classes, or it names the splits and the second level names the classes."""

import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from frostbench.embedcache.counting import counted, things
from frostbench.embedcache.items import Item, Listing, escape_name, make_listing
from frostbench.embedcache.sources.walking import (
    LeftOut,
    entries,
    file_key,
    followed,
    is_image,
    relative_name,
    walk,
)
from frostbench.embedcache.splits.role_names import role_called


@dataclass
class _Found:
    """Images of a folder of class folders, and what was skipped."""

    root: Path
    left: LeftOut = field(default_factory=LeftOut)
    flat: list[str] = field(default_factory=list)
    """Images beside the class folders."""
    beside: list[str] = field(default_factory=list)
    """Folders that hold no images and are beside the split folders."""
    empty: list[str] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)
    """Class names, each once (an ordered set)."""
    items: list[Item] = field(default_factory=list)

    def add_parts(self, parts: list[str]) -> None:
        """Add the images of each split folder."""
        for name, path in self._folders(self.root):
            if name in parts:
                self.add_classes(path, name)
            else:
                self.beside.append(escape_name(name))

    def add_classes(self, folder: Path, split: str | None) -> None:
        """Add the images of each class folder in a folder, with the given split."""
        for name, path in self._folders(folder):
            above = tuple(file_key(one) for one in dict.fromkeys((self.root, folder, path)))
            found = [
                Item(relative_name(file, self.root), file, escape_name(name), split=split)
                for file in walk(path, self.root, above, self.left)
            ]
            if not found:
                self.empty.append(relative_name(path, self.root))
            self.names[escape_name(name)] = None
            self.items += found

    def _folders(self, folder: Path) -> list[tuple[str, Path]]:
        """Return the subfolders with their names, and record the files beside them."""
        classes = []
        for entry in entries(folder, self.root, self.left):
            if followed(entry).is_dir():
                classes.append((entry.name, Path(entry.path)))
            elif is_image(entry.name):
                self.flat.append(relative_name(Path(entry.path), self.root))
            else:
                self.left.add_file(entry.name)
        return classes

    def sentences(self, parts: list[str]) -> list[str]:
        """Return warnings about skipped files and recognised split folders."""
        warnings = self.left.sentences()
        if self.flat:
            warnings.append(
                counted(
                    self.flat,
                    "image outside the class folders was skipped",
                    "images outside the class folders were skipped",
                )
            )
        if self.beside:
            warnings.append(
                counted(
                    self.beside,
                    "folder beside the split folders holds no images and was skipped",
                    "folders beside the split folders hold no images and were skipped",
                )
            )
        if self.empty:
            warnings.append(
                counted(
                    self.empty,
                    "class folder has no image; it stays in the class list",
                    "class folders have no image; they stay in the class list",
                )
            )
        if parts:
            warnings.append(
                f"The folders {', '.join(parts)} name splits, not classes: the folders inside them are the classes. "
                "Use --split source=given to train and evaluate with these splits."
            )
        odd = [name for name in self.names if role_called(name)]
        if odd:
            warnings.append(f"Some classes have the name of a split: {', '.join(odd)}. Check that they are classes.")
        return warnings


def list_folder(root: Path, *, group_regex: str | None = None, time_regex: str | None = None) -> Listing:
    """List the images below a folder of class folders.

    Folders inside a class folder belong to that class. If the folders below the root are called train, val, test and so
    on, they name the split of their images, and the folders inside them name the classes. Links are followed, except
    broken ones and links into a parent folder. Hidden files and folders (a leading dot) and system files are skipped.
    `warnings` states what was skipped.

    Args:
        root: folder with one folder per class, or with split folders that contain those.
        group_regex: searched in each id; the first capture group, or the whole match, is the image's group.
        time_regex: likewise for the image's time.

    Raises:
        ValueError: there is no such folder, it has no class folders or no images, split folders are beside other
            folders of images or have no class folders, or a regex does not match an id.
        OSError: a folder below the root cannot be read.
    """
    if not root.is_dir():
        raise ValueError(f"An image source must be a folder, but {root} is not. Check the path.")
    root = root.absolute()
    found, parts = _Found(root), _parts(root)
    if parts:
        found.add_parts(parts)
    else:
        found.add_classes(root, None)
    _check_classes(found, parts)
    description = {"kind": "folder", "root": escape_name(os.fspath(root))}
    return make_listing(found.items, found.names, found.sentences(parts), description, group_regex, time_regex)


def _parts(root: Path) -> list[str]:
    """Return the names of split folders; empty if the folders are classes.

    Raises:
        ValueError: several split folders are beside other folders of images.
    """
    folders = [entry for entry in entries(root, root, LeftOut()) if followed(entry).is_dir()]
    parts = [entry.name for entry in folders if role_called(entry.name)]
    others = [entry.name for entry in folders if entry.name not in parts]
    full = [name for name in others if parts and _holds_images(root / name)]
    if full and len({role_called(name) for name in parts}) > 1:
        raise ValueError(
            f"Split folders must not be mixed with class folders, but in {root} {', '.join(parts)} are beside "
            f"{', '.join(full[:3])}. Move the class folders away, or use a manifest with path, label and split."
        )
    return [] if full else parts


def _holds_images(folder: Path) -> bool:
    return bool(list(islice(walk(folder, folder, (file_key(folder),), LeftOut()), 1)))


def _check_classes(found: _Found, parts: list[str]) -> None:
    """Check that there are class folders."""
    if parts and not found.names:
        raise ValueError(
            f"The folders inside {', '.join(parts)} of {found.root} must name the classes, but there are none "
            f"({things(len(found.flat), 'image is', 'images are')} directly in these split folders). Sort the images "
            "into class folders, or use a manifest with the columns path, label and split."
        )
    if not found.names:
        raise ValueError(
            f"The folders directly below {found.root} must name the classes, but there are none "
            f"({things(len(found.flat), 'image is', 'images are')} directly in it). Sort the images into class "
            "folders, or use a manifest with the columns path and label."
        )
