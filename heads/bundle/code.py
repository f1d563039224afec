"""Code that loading a bundle may run: none, except a plugin file that the user names."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.heads.plugin_files import PluginError, file_hash, run_plugin, was_run
from frostbench.heads.spec import Spec
from frostbench.heads.stepped.external import ExternalClassifier

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_named_files(tree: Any) -> None:
    """Reject a card, as parsed from JSON, whose head names a file without its SHA-256.

    A spec without the hash would take it from the file at that path, so any file there would be accepted.

    Raises:
        ValueError: the SHA-256 is missing or malformed.
    """
    head = tree.get("head") if isinstance(tree, Mapping) else None
    classifier = head.get("classifier") if isinstance(head, Mapping) else None
    if not isinstance(classifier, Mapping) or not (classifier.get("file") or classifier.get("kind") == "external"):
        return
    stated = classifier.get("sha256")
    if not isinstance(stated, str) or not _SHA256.fullmatch(stated):
        raise ValueError(f"A head must name a file with its SHA-256, got {stated!r} for {classifier.get('file')!r}.")


def run_named(classifier: Spec, plugins: Sequence[str | Path], folder: Path) -> None:
    """Run the plugin file that a bundle's classifier needs, if it is among the named ones.

    The file is found by its SHA-256, at any path; the path in the card only appears in the message.

    Args:
        classifier: spec of the head's classifier; built-in ones need no file.
        plugins: .py files that may be run.
        folder: folder of the bundle, for the message.

    Raises:
        PluginError: the classifier's plugin was not run before and is not among these files, or a file is missing or
            fails to run.
    """
    if not isinstance(classifier, ExternalClassifier) or was_run(classifier.sha256):
        return
    files = {file_hash(file): file for file in plugins}
    if classifier.sha256 not in files:
        others = f"no named file has it ({', '.join(map(str, files.values()))})" if files else "no file was named"
        raise PluginError(
            f"The head in {folder} is a plugin, which runs only if you name its file. It needs {classifier.file!r} "
            f"with the SHA-256 {classifier.sha256}, but {others}. Read that file, then pass `--plugin FILE` (in Python "
            "`plugins=[FILE]`)."
        )
    run_plugin(files[classifier.sha256], classifier.sha256)
