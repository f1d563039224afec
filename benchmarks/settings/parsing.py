"""Parses YAML files, presets and `--set a.b=value` overrides into validated specs, and computes run keys."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from frostbench.benchmarks.settings.reading import read_yaml
from frostbench.benchmarks.settings.wording import describe
from frostbench.embedcache.plain_text import read_text
from frostbench.heads.spec import canonical
from frostbench.heads.titles import named

SpecT = TypeVar("SpecT", bound=BaseModel)
Tree = dict[str, Any]

AUTO = "auto"
"""Name that `frostbench train` and `frostbench.fit` take in place of a preset to choose a configuration."""
MOST_BYTES = 4 * 2**20
"""Maximum size of a settings file."""


class SettingsError(ValueError):
    """An invalid setting: unknown, out of bounds or not one of its choices."""


def parse(spec_type: type[SpecT], tree: Mapping[str, Any], overrides: Iterable[str] = ()) -> SpecT:
    """Return the spec that results from its defaults, the differences in `tree`, and overrides `a.b=value` on top.

    Raises:
        SettingsError: an option is unknown or its value is not allowed; the message lists all such options.

    >>> from frostbench.training.run import RunSpec
    >>> parse(RunSpec, {"head": {"body": {"kind": "mlp"}}}, ["head.body.dropout=0.1"]).head.body.dropout
    0.1
    """
    merged = with_changes(merge(spec_type().model_dump(mode="json"), tree), read_overrides(overrides, spec_type))
    try:
        return spec_type.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(describe(error, spec_type)) from error


def read_overrides(items: Iterable[str], spec_type: type[BaseModel]) -> Tree:
    """Return the values of overrides `a.b=value` by dotted path; messages use the option titles of the spec type.

    Raises:
        SettingsError: an override does not have that form, or two set the same option.
    """
    changes: Tree = {}
    for item in items:
        path, value = split_override(item)
        if path in changes:
            raise SettingsError(f"{named(spec_type, path)} is set twice. Remove one of the overrides.")
        changes[path] = value
    return changes


def split_override(item: str) -> tuple[str, Any]:
    """Split `a.b=value` into the dotted path and the value, parsed as YAML.

    >>> split_override("head.body.hidden=[512, 256]")
    ('head.body.hidden', [512, 256])
    """
    path, equals, value = item.partition("=")
    # Paths may be copied from the listing of options, which adds the kind: head.body<mlp>.hidden.
    path = re.sub("<[^>]*>", "", path)
    if not equals or not path.strip():
        raise SettingsError(f"An override must have the form a.b=value, got {item!r}.")
    try:
        return path.strip(), read_yaml(value)
    except yaml.YAMLError as error:
        raise SettingsError(f"The value of an override must be YAML, got {item!r} ({error}).") from error


def merge(tree: Mapping[str, Any], differences: Mapping[str, Any]) -> Tree:
    """Return the tree updated with differences, branch by branch; a branch whose `kind` changes is replaced.

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
    """Return the tree updated with dotted changes; a `kind` is changed first, since that replaces its branch."""
    merged = dict(tree)
    for path in sorted(changes, key=lambda p: (p.rsplit(".", 1)[-1] != "kind", p.count("."))):
        nested: Any = changes[path]
        for key in reversed(path.split(".")):
            nested = {key: nested}
        merged = merge(merged, nested)
    return merged


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Tree:
    """Flatten a nested tree into values by dotted option.

    >>> leaves({"a": {"b": 1, "c": [2]}, "d": 3})
    {'a.b': 1, 'a.c': [2], 'd': 3}
    """
    found: Tree = {}
    for key, value in tree.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def load_yaml(path: Path) -> Tree:
    """Load the mapping in a YAML file.

    Raises:
        SettingsError: the file is missing, too large, not YAML or does not hold a mapping.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SettingsError(
                f"A settings file may have at most {MOST_BYTES} bytes, but {path} has {path.stat().st_size}. Check "
                "that it is the right file."
            )
        tree = read_yaml(read_text(path, "a settings file"))
    except OSError as error:
        raise SettingsError(f"Cannot read the settings file {path}: {error.strerror}. Check the path.") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"A settings file must be YAML, but {path} is not ({error}).") from error
    except ValueError as error:
        raise SettingsError(str(error)) from error
    if not isinstance(tree or {}, dict):
        raise SettingsError(
            f"A settings file must consist of `key: value` lines, but {path} holds a {type(tree).__name__}."
        )
    return tree or {}


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets that come with the package."""
    return _packaged_names("presets")


def preset(name: str) -> Tree:
    """Return the differences of a preset from the defaults; an unknown name raises SettingsError."""
    if name == AUTO:
        raise SettingsError(
            f"A bench and a comparison need fixed configurations, but {AUTO} is chosen for each table anew. Run "
            f"`frostbench train CACHE`, and use the preset and options that it prints."
        )
    return _packaged("presets", name)


def bench_names() -> tuple[str, ...]:
    """Return the names of the benches that come with the package."""
    return _packaged_names("benches")


def bench_title(name: str) -> str:
    """Return the comment at the start of a bench that comes with the package, as one line."""
    lines = (resources.files("frostbench.configs") / "benches" / f"{name}.yaml").read_text("utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), lines))


def packaged_bench(name: str) -> Tree:
    """Load a bench file that comes with the package, such as demo; an unknown name raises SettingsError."""
    return _packaged("benches", name)


def _packaged_names(folder: str) -> tuple[str, ...]:
    files = (resources.files("frostbench.configs") / folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def _packaged(folder: str, name: str) -> Tree:
    known = _packaged_names(folder)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise SettingsError(f"{name!r} is not one of the {folder}: {', '.join(known)}.{hint}")
    with resources.as_file(resources.files("frostbench.configs") / folder / f"{name}.yaml") as path:
        return load_yaml(path)


def run_key(spec: BaseModel, table_hash: str, split_hash: str, engine_version: int) -> str:
    """Return the key of a run, 16 hex digits: it depends on the spec, the table, the split and the engine version."""
    parts = {"spec": canonical(spec), "table": table_hash, "split": split_hash, "engine": engine_version}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
