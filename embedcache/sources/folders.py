"""Image folders: the first folder level below the root names the class, or a part of the set and the next the class."""

import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from frostbench.embedcache.items import Item, Listing, escape_name, make_listing
from frostbench.embedcache.sources.walking import (
    LeftOut,
    counted,
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
    """What a folder of class folders holds, and what is left out of it."""

    root: Path
    left: LeftOut = field(default_factory=LeftOut)
    flat: list[str] = field(default_factory=list)
    """Images beside the class folders."""
    beside: list[str] = field(default_factory=list)
    """Folders without images beside parts of a set."""
    empty: list[str] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)
    """Of the classes, each once."""
    items: list[Item] = field(default_factory=list)

    def add_parts(self, parts: list[str]) -> None:
        """Add the images of each part of the set."""
        for name, path in self._folders(self.root):
            if name in parts:
                self.add_classes(path, name)
            else:
                self.beside.append(escape_name(name))

    def add_classes(self, folder: Path, split: str | None) -> None:
        """Add the images of each class folder in a folder, as part `split` of the set."""
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
        """The class folders; what lies beside them is noted."""
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
        """Warnings about everything that was left out, and about parts that were recognised."""
        told = self.left.sentences()
        if self.flat:
            told.append(
                counted(
                    self.flat,
                    "image lies beside the class folders, belongs to no class and was skipped",
                    "images lie beside the class folders, belong to no class and were skipped",
                )
            )
        if self.beside:
            told.append(
                counted(
                    self.beside,
                    "folder beside the parts of the set holds no image and was skipped",
                    "folders beside the parts of the set hold no image and were skipped",
                )
            )
        if self.empty:
            told.append(
                counted(
                    self.empty,
                    "class folder holds no image; it stays in the class list",
                    "class folders hold no image; they stay in the class list",
                )
            )
        if parts:
            told.append(
                f"The folders {', '.join(parts)} name parts of the set, not classes: the folders in them are the "
                "classes, and each image has its part as split. --split source=given trains and judges by it."
            )
        odd = [name for name in self.names if role_called(name)]
        if odd:
            told.append(f"The class {', '.join(odd)} has a name of a part of a set. Is it a class?")
        return told


def list_folder(root: Path, *, group_regex: str | None = None, time_regex: str | None = None) -> Listing:
    """List the images below a folder of class folders.

    Folders inside a class folder belong to that class. Where the folders below the root are called train, val, test and
    so on, they are the split of their images, and the folders in them name the classes. Links are followed, except
    those that lead nowhere or back into a folder above them. Hidden files and folders (a leading dot) and what systems
    leave behind are skipped. What was left out is in `warnings`.

    Args:
        root: folder that holds one folder for each class, or one for each part of the set with those in it.
        group_regex: searched in each id; its first capture group, or else the whole match, is the image's group.
        time_regex: the same for the image's time.

    Raises:
        ValueError: there is no such folder, it has no class folders or no images, parts of a set lie beside other
            folders of images or have no class folders, or the regex misses an image.
        OSError: a folder below the root cannot be read.
    """
    if not root.is_dir():
        raise ValueError(f"an image source must be a folder, however: {root} is none. Is the path right?")
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
    """The names of folders that are parts of a set; none where the folders are classes.

    Raises:
        ValueError: several such parts lie beside folders of images that are none.
    """
    folders = [entry for entry in entries(root, root, LeftOut()) if followed(entry).is_dir()]
    parts = [entry.name for entry in folders if role_called(entry.name)]
    others = [entry.name for entry in folders if entry.name not in parts]
    full = [name for name in others if parts and _holds_images(root / name)]
    if full and len({role_called(name) for name in parts}) > 1:
        raise ValueError(
            f"folders that name parts of a set stand alone, however: in {root} {', '.join(parts)} lie beside "
            f"{', '.join(full[:3])} with images. Move the others away, or give a manifest with path, label and split."
        )
    return [] if full else parts


def _holds_images(folder: Path) -> bool:
    return bool(list(islice(walk(folder, folder, (file_key(folder),), LeftOut()), 1)))


def _check_classes(found: _Found, parts: list[str]) -> None:
    """Refuse a folder without class folders."""
    if parts and not found.names:
        raise ValueError(
            f"the folders in {', '.join(parts)} of {found.root} must name the classes, however: there are none "
            f"({len(found.flat)} images lie flat in them), and parts of a set are no classes. Sort the images into "
            "class folders, or give a manifest with the columns path, label and split."
        )
    if not found.names:
        raise ValueError(
            f"the folders directly below {found.root} must name the classes, however: there are none "
            f"({len(found.flat)} images lie flat in it). Sort them into class folders, or give a manifest with the "
            "columns path and label."
        )
