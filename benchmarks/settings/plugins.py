"""Translates settings that name the kinds of plugins into settings of kind `external`, which name the plugin files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.heads.plugin_files import PluginError, has_method, run_plugin, spec_classes
from frostbench.heads.titles import named
from frostbench.heads.walk import kind_of, plain_path, walk

EXTERNAL = "external"
OWN_FIELDS = ("kind", "file", "name", "sha256", "options")
METHODS = ("__call__", "part", "build")
"""Methods that make a plugin class a loss or a head; other classes are only options of these."""


@dataclass(frozen=True)
class Kind:
    """Origin of a plugin's kind: its file, the SHA-256 of the file, and the class name."""

    file: str
    sha256: str
    name: str


@dataclass(frozen=True)
class Place:
    """An option that accepts a plugin.

    Attributes:
        path: dotted path.
        spec_type: spec of kind external at this option.
        known: built-in kinds of this option.
    """

    path: str
    spec_type: type[BaseModel]
    known: tuple[str, ...]


def translated(tree: Tree, plugins: Sequence[str], spec_type: type[BaseModel]) -> Tree:
    """Return settings in which plugins have kind external, with their files, hashes and all of their options.

    `{"kind": "my_loss", "gamma": 3}` becomes `{"kind": "external", "file": …, "name": …, "sha256": …, "options":
    {"gamma": 3, …}}`. Next to kind external, any other key is an option of the plugin, so that `--set
    train.loss.point.gamma=3` reaches it. Defaults are included, so that equal runs have equal keys.

    The files of `plugins` are executed, and so are files named in the settings: only pass settings that the user
    wrote, on the command line, in a bench file or in Python.

    Args:
        tree: nested settings, with all differences applied.
        plugins: files whose kinds may be named.
        spec_type: spec that the settings are for.

    Raises:
        SettingsError: a plugin cannot be used, rejects an option, or has a kind with the name of another kind.
    """
    places = tuple(places_of(spec_type))
    kinds = kinds_of(plugins, places)
    for place in places:
        branch = _at(tree, place.path)
        if isinstance(branch, Mapping) and branch.get("kind") in {EXTERNAL, *kinds}:
            tree = _replaced(tree, place.path.split("."), _external(branch, place, kinds, named(spec_type, place.path)))
    return tree


def places_of(spec_type: type[BaseModel]) -> Iterator[Place]:
    """Yield the options of a spec type that accept plugins, that is, those with a kind external."""
    for node in walk(spec_type):
        yield from (Place(plain_path(node.path), v, node.kinds) for v in node.branches if kind_of(v) == EXTERNAL)


def kinds_of(plugins: Sequence[str], places: Sequence[Place]) -> dict[str, Kind]:
    """Execute plugin files and return the kinds that they define, by name.

    Raises:
        SettingsError: a file cannot be used or defines no loss or head, or the name of a kind is taken.
    """
    taken = {name: "the library" for place in places for name in place.known}
    found: dict[str, Kind] = {}
    for file in dict.fromkeys(plugins):
        for name, kind in _kinds_in(file).items():
            if name in taken:
                raise SettingsError(
                    f"Kinds must have unique names, but {name!r} of {file} is already defined by {taken[name]}. Rename "
                    "the kind."
                )
            taken[name], found[name] = file, kind
    return found


def _kinds_in(file: str) -> dict[str, Kind]:
    try:
        sha256 = run_plugin(file)
        classes = spec_classes(file, sha256)
    except PluginError as error:
        raise SettingsError(str(error)) from error
    able = {name: v for name, v in classes.items() if any(has_method(v, method) for method in METHODS)}
    kinds = {name: v.model_fields["kind"].default for name, v in able.items() if "kind" in v.model_fields}
    found = {kind: Kind(file, sha256, name) for name, kind in kinds.items() if isinstance(kind, str)}
    if not found or len(found) < len(kinds):
        raise SettingsError(
            "A plugin must define at least one subclass of `frostbench.heads.spec.Spec` with its own kind; a loss also "
            f"needs the method `__call__` or `part`, and a head needs `build`. {file} has {kinds or 'none'}. Write "
            '`kind: Literal["my_loss"] = "my_loss"`, and the method.'
        )
    return found


def _external(branch: Mapping[str, Any], place: Place, kinds: Mapping[str, Kind], label: str) -> Tree:
    """Return the branch as kind external, with the options as the plugin itself validates them.

    A branch without a file is returned as it is; `frostbench.training.checks.conflicts` reports the missing file.
    """
    kind = kinds.get(str(branch["kind"]))
    if kind is None:
        fields = {key: value for key, value in branch.items() if key in OWN_FIELDS}
        others = {key: value for key, value in branch.items() if key not in OWN_FIELDS}
        tree = fields | {"options": {**(fields.get("options") or {}), **others}}
    else:
        options = {key: value for key, value in branch.items() if key != "kind"}
        tree = {"kind": EXTERNAL, "file": kind.file, "name": kind.name, "sha256": kind.sha256, "options": options}
    if not tree.get("file"):
        return tree
    try:
        spec: Any = place.spec_type.model_validate(tree)
        run_plugin(spec.file, spec.sha256)
        inner = spec.checked().model_dump(mode="json", exclude={"kind"})
    except ValueError as error:
        raise SettingsError(f"{label}: {error}") from error
    return {**spec.model_dump(mode="json"), "options": inner}


def files_of(spec: BaseModel) -> tuple[str, ...]:
    """Return the plugin files that a spec names, without executing them."""
    held: list[Any] = [node.value for node in walk(spec) if isinstance(node.value, BaseModel)]
    return tuple(str(value.file) for value in held if kind_of(value) == EXTERNAL)


def check_allowed(spec: BaseModel, plugins: Sequence[str | Path]) -> None:
    """Reject a spec, such as one from a browser, that names plugin files other than the allowed ones.

    Raises:
        SettingsError: the spec names another file.
    """
    allowed = {Path(file).resolve() for file in plugins}
    foreign = [file for file in files_of(spec) if Path(file).resolve() not in allowed]
    if foreign:
        raise SettingsError(
            f"Plugins execute code, so the page accepts only {sorted(map(str, plugins))}, got {foreign}. Start the "
            "page with `frostbench app --plugin FILE`."
        )


def _at(tree: Mapping[str, Any], path: str) -> Any:
    value: Any = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _replaced(tree: Mapping[str, Any], path: Sequence[str], branch: Tree) -> Tree:
    first, *rest = path
    return {**tree, first: _replaced(tree[first], rest, branch) if rest else branch}
