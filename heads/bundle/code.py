"""What code a bundle may lead to: none, save a plugin's file that the person at work names themselves."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.heads.plugin_files import PluginError, file_hash, run_plugin, was_run
from frostbench.heads.spec import Spec
from frostbench.heads.stepped.external import ExternalClassifier

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_named_files(tree: Any) -> None:
    """Refuse a card, as it was read from JSON, whose head names a file without its SHA-256.

    Where a spec lacks the hash it takes it from the file at that path, so whatever lies there would do.

    Raises:
        ValueError: as above.
    """
    head = tree.get("head") if isinstance(tree, Mapping) else None
    classifier = head.get("classifier") if isinstance(head, Mapping) else None
    if not isinstance(classifier, Mapping) or not (classifier.get("file") or classifier.get("kind") == "external"):
        return
    stated = classifier.get("sha256")
    if not isinstance(stated, str) or not _SHA256.fullmatch(stated):
        raise ValueError(
            f"a file that a head needs is named with its SHA-256, however: {classifier.get('file')!r} came with "
            f"{stated!r}."
        )


def run_named(classifier: Spec, plugins: Sequence[str | Path], folder: Path) -> None:
    """Run the file that a bundle's classifier needs, where it is among those that were named.

    It is found by its SHA-256, wherever it lies; the path in the card is only told.

    Args:
        classifier: of the bundle's head; one of the library needs no file.
        plugins: .py files that may be run.
        folder: of the bundle, for the message.

    Raises:
        PluginError: the classifier is a plugin whose file was not run before and is none of these, or a named file is
            missing or does not run.
    """
    if not isinstance(classifier, ExternalClassifier) or was_run(classifier.sha256):
        return
    found = {file_hash(file): file for file in plugins}
    if classifier.sha256 not in found:
        others = f"{', '.join(map(str, found.values()))} has another" if found else "no file was named"
        raise PluginError(
            f"the head of {folder} is a plugin, code that runs only where its file is named, however: it needs "
            f"{classifier.file!r} with the SHA-256 {classifier.sha256}, and {others}. Read that file, then give "
            "`--plugin FILE` (in Python `plugins=[FILE]`)."
        )
    run_plugin(found[classifier.sha256], classifier.sha256)
