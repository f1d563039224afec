"""Validation errors in words."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from frostbench.benchmarks.settings.options import options
from frostbench.heads.spec import rule_of
from frostbench.heads.titles import named
from frostbench.heads.walk import plain_path, walk


def told(error: ValidationError, spec_type: type[BaseModel]) -> str:
    """Every mistake of a validation error: the option by title and path, the rule, what came, and a hint."""
    lines = []
    for item in error.errors(include_url=False):
        tagged = _tagged(item["loc"], spec_type)
        path = plain_path(tagged)
        rule = rule_of(item)
        came = repr(item.get("input"))
        came = came if len(came) <= 80 else f"{came[:77]}…"
        # Rules of our own that compare several options say themselves what came and what to do.
        is_whole = rule.endswith(".")
        whole = rule if is_whole else f"{rule}, however: {came} came.{_hint(item, path, spec_type)}"
        lines.append(f"{named(spec_type, tagged) or 'settings'}: {whole}")
    return "\n".join(lines) + "\nSee `frostbench options`."


def written_path(loc: Sequence[str | int], spec_type: type[BaseModel]) -> str:
    """The path of an option as one writes it, from pydantic's, which also names the kind of each branch.

    >>> from frostbench.training.run import RunSpec
    >>> written_path(("head", "body", "mlp", "dropout"), RunSpec)
    'head.body.dropout'
    """
    return plain_path(_tagged(loc, spec_type))


def _tagged(loc: Sequence[str | int], spec_type: type[BaseModel]) -> str:
    """The path of an option with the kind of each branch in brackets, as `options` writes it."""
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
        return f" It exists for kind {kind}: set {plain_path(branch)}.kind={kind}."
    if item["type"] == "extra_forbidden":
        branches = {".".join(name.split(".")[:n]) for name in plain for n in range(1, name.count(".") + 2)}
        near = difflib.get_close_matches(path, sorted(branches), n=1, cutoff=0.6)
        return f" Did you mean {near[0]}?" if near else ""
    if item["type"] == "string_type":
        return " Put it in quotes: YAML reads it as something else than text."
    if f"{path}.kind" in plain and isinstance(item.get("input"), str):
        return f" Write {path}.kind={item['input']}."
    return ""
