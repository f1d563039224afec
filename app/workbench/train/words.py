"""Sentences of rules and errors with the titles of options in place of their dotted paths."""

import re
from collections.abc import Mapping
from typing import Any

from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

_PATH = re.compile(r"\b([a-z][a-z_]*(?:\.[a-z][a-z_0-9]*)+)(?:=([\w.+-]*\w))?")


def in_words(sentence: str, settings: Mapping[str, Any] | None = None) -> str:
    """Return a sentence that names options by their title, with a capital first letter and a full stop.

    Args:
        sentence: sentence of a rule, a note or an error.
        settings: nested settings that select kinds where a path does not.

    >>> in_words("raise train.optim.lr, or use train.loss.class_weight.kind=none")
    'Raise “Learning rate”, or use “Class weights” = none.'
    """
    replaced = _PATH.sub(lambda match: _titled(match, settings), sentence.strip())
    text = replaced[:1].upper() + replaced[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _titled(match: re.Match[str], settings: Mapping[str, Any] | None) -> str:
    path, value = match.groups()
    title = label_of(RunSpec, path, settings)
    if title == path:
        return match[0]
    return f"“{title}”" + ("" if value is None else f" = {value}")
