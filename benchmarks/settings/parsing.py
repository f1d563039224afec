"""YAML and `--set a.b=value` to a validated spec; run keys; presets."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from frostbench.benchmarks.settings.reading import read_yaml
from frostbench.benchmarks.settings.wording import told
from frostbench.embedcache.plain_text import read_text
from frostbench.heads.spec import canonical

SpecT = TypeVar("SpecT", bound=BaseModel)
Tree = dict[str, Any]


MOST_BYTES = 4 * 2**20
"""The most that a file of settings is read of."""


class SettingsError(ValueError):
    """A setting is unknown, out of bounds or not one of its choices."""


def parse(spec_type: type[SpecT], tree: Mapping[str, Any], overrides: Iterable[str] = ()) -> SpecT:
    """The spec with its defaults, the differences in tree, and overrides `a.b=value` on top.

    Raises:
        SettingsError: an option is unknown or its value is not allowed; the message names every such option.

    >>> from frostbench.training.run import RunSpec
    >>> parse(RunSpec, {"head": {"body": {"kind": "mlp"}}}, ["head.body.dropout=0.1"]).head.body.dropout
    0.1
    """
    merged = with_changes(merge(spec_type().model_dump(mode="json"), tree), read_overrides(overrides))
    try:
        return spec_type.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(told(error, spec_type)) from error


def read_overrides(items: Iterable[str]) -> Tree:
    """Dotted paths and values of overrides `a.b=value`.

    Raises:
        SettingsError: one is not of that form, or two set the same option.
    """
    changes: Tree = {}
    for item in items:
        path, value = split_override(item)
        if path in changes:
            raise SettingsError(f"an option is set once, however: {path} came twice. Leave one of them out.")
        changes[path] = value
    return changes


def split_override(item: str) -> tuple[str, Any]:
    """`a.b=value` to the dotted path and the value, read as YAML.

    >>> split_override("head.body.hidden=[512, 256]")
    ('head.body.hidden', [512, 256])
    """
    path, equals, value = item.partition("=")
    # The listing of options writes for which kind one exists: head.body<mlp>.hidden.
    path = re.sub("<[^>]*>", "", path)
    if not equals or not path.strip():
        raise SettingsError(f"an override has the form a.b=value, however: {item!r} came. Write it with one `=`.")
    try:
        return path.strip(), read_yaml(value)
    except yaml.YAMLError as error:
        raise SettingsError(f"the value of an override must be YAML, however: {item!r} came ({error}).") from error


def merge(tree: Mapping[str, Any], differences: Mapping[str, Any]) -> Tree:
    """Tree with differences laid over it, branch by branch; a branch that changes `kind` starts anew.

    >>> merge({"w": {"kind": "effective", "beta": 0.9}, "n": 1}, {"w": {"kind": "none"}})
    {'w': {'kind': 'none'}, 'n': 1}
    """
    if "kind" in differences and differences["kind"] != tree.get("kind"):
        tree = {}
    merged = dict(tree)
    for key, value in differences.items():
        old = merged.get(key)
        nested = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def with_changes(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> Tree:
    """Tree with dotted changes; changes of a `kind` come first, since they start their branch anew."""
    merged = dict(tree)
    for path in sorted(changes, key=lambda p: (p.rsplit(".", 1)[-1] != "kind", p.count("."))):
        nested: Any = changes[path]
        for key in reversed(path.split(".")):
            nested = {key: nested}
        merged = merge(merged, nested)
    return merged


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Tree:
    """A nested tree as dotted options and their values.

    >>> leaves({"a": {"b": 1, "c": [2]}, "d": 3})
    {'a.b': 1, 'a.c': [2], 'd': 3}
    """
    found: Tree = {}
    for key, value in tree.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def load_yaml(path: Path) -> Tree:
    """The mapping in a YAML file.

    Raises:
        SettingsError: the file is missing, is not YAML or holds something other than a mapping.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SettingsError(
                f"a settings file has at most {MOST_BYTES} bytes, however: {path} has {path.stat().st_size}. Is it the "
                "right file?"
            )
        found = read_yaml(read_text(path, "a settings file"))
    except OSError as error:
        raise SettingsError(
            f"a settings file must exist, however: {path} does not ({error.strerror}). Is the path right?"
        ) from error
    except yaml.YAMLError as error:
        raise SettingsError(f"a settings file must be YAML, however: {path} is not ({error}).") from error
    except ValueError as error:
        raise SettingsError(str(error)) from error
    if not isinstance(found or {}, dict):
        raise SettingsError(
            f"a settings file must hold `key: value` lines, however: {path} holds a {type(found).__name__}."
        )
    return found or {}


def preset_names() -> tuple[str, ...]:
    """Names of the presets that come with the package."""
    return _packaged_names("presets")


def preset(name: str) -> Tree:
    """The differences of a preset from the defaults.

    Raises:
        SettingsError: there is no such preset.
    """
    return _packaged("presets", name)


def packaged_bench(name: str) -> Tree:
    """A bench file that comes with the package, such as demo.

    Raises:
        SettingsError: there is no such bench.
    """
    return _packaged("benches", name)


def _packaged_names(folder: str) -> tuple[str, ...]:
    files = (resources.files("frostbench.configs") / folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def _packaged(folder: str, name: str) -> Tree:
    known = _packaged_names(folder)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        cure = f"Did you mean {near[0]}?" if near else "Name one of these."
        raise SettingsError(f"one of the {folder} is {', '.join(known)}, however: {name!r} came. {cure}")
    with resources.as_file(resources.files("frostbench.configs") / folder / f"{name}.yaml") as path:
        return load_yaml(path)


def run_key(spec: BaseModel, table_hash: str, split_hash: str, engine_version: int) -> str:
    """The name of a run, 16 hex digits: it changes with the spec, the table, the split or the engine's numerics."""
    parts = {"spec": canonical(spec), "table": table_hash, "split": split_hash, "engine": engine_version}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
