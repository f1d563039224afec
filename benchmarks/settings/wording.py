"""Turns pydantic's validation errors into messages with option titles and hints."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from frostbench.benchmarks.settings.options import options
from frostbench.heads.spec import rule_of
from frostbench.heads.titles import named
from frostbench.heads.walk import plain_path, walk


def describe(error: ValidationError, spec_type: type[BaseModel]) -> str:
    """Return one line per error: title and path of the option, the rule, the value given, and a hint."""
    lines = []
    for item in error.errors(include_url=False):
        tagged = tagged_path(item["loc"], spec_type)
        message = rule_of(item)
        # Our own rules about several options are full sentences with the values and the remedy; pydantic's are not.
        if not message.endswith((".", "?")):
            given = repr(item.get("input"))
            given = given if len(given) <= 80 else f"{given[:77]}…"
            message += f", got {given}.{_hint(item, plain_path(tagged), spec_type)}"
        lines.append(f"{named(spec_type, tagged) or 'settings'}: {message}")
    return "\n".join(lines) + "\nSee `frostbench options`."


def tagged_path(loc: Sequence[str | int], spec_type: type[BaseModel]) -> str:
    """Return the path of one of pydantic's errors as `options` writes it: union tags become `<kind>` after their field.

    >>> from frostbench.training.run import RunSpec
    >>> tagged_path(("head", "body", "mlp", "dropout"), RunSpec)
    'head.body<mlp>.dropout'
    """
    branches = {f"{node.path}<{kind}>" for node in walk(spec_type) for kind in node.kinds if len(node.branches) > 1}
    path = ""
    for part in loc:
        tagged = f"{path}<{part}>"
        path = tagged if tagged in branches else f"{path}.{part}".lstrip(".")
    return path


def _hint(item: Any, path: str, spec_type: type[BaseModel]) -> str:
    tagged = [option.path for option in options(spec_type)]
    plain = {plain_path(name): name for name in tagged}
    if item["type"] == "extra_forbidden" and path in plain:
        branch, kind = re.findall(r"^(.*)<([^>]*)>", plain[path])[0]
        return f" It exists only for kind {kind}: set {plain_path(branch)}.kind={kind}."
    if item["type"] == "extra_forbidden":
        branches = {".".join(name.split(".")[:n]) for name in plain for n in range(1, name.count(".") + 2)}
        near = difflib.get_close_matches(path, sorted(branches), n=1, cutoff=0.6)
        return f" Did you mean {near[0]}?" if near else ""
    if item["type"] == "string_type":
        return " Put it in quotes: YAML does not read it as text."
    if f"{path}.kind" in plain and isinstance(item.get("input"), str):
        return f" Write {path}.kind={item['input']}."
    return ""
