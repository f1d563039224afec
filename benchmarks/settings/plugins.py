"""Kinds of someone's own: trees of settings that name them become trees of kind external, which name their files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.heads.plugin_files import PluginError, has_method, run_plugin, spec_classes
from frostbench.heads.walk import kind_of, plain_path, walk

EXTERNAL = "external"
OWN_FIELDS = ("kind", "file", "name", "sha256", "options")
METHODS = ("__call__", "part", "build")
"""What makes a class of a plugin a loss or a head; its other classes are options of these."""


@dataclass(frozen=True)
class Kind:
    """Where a kind of a plugin comes from: its file, the file's SHA-256, and the class."""

    file: str
    sha256: str
    name: str


@dataclass(frozen=True)
class Place:
    """An option that a plugin can stand at.

    Attributes:
        path: dotted.
        spec_type: the spec of kind external there.
        known: the kinds of the library there.
    """

    path: str
    spec_type: type[BaseModel]
    known: tuple[str, ...]


def translated(tree: Tree, plugins: Sequence[str], spec_type: type[BaseModel]) -> Tree:
    """A tree of settings in which plugins stand as kind external, with their files, hashes and all of their options.

    `{"kind": "my_loss", "gamma": 3}` becomes `{"kind": "external", "file": …, "name": …, "sha256": …, "options":
    {"gamma": 3, …}}`. Beside kind external, a name that is none of its fields is an option of the plugin, so that
    `--set train.loss.point.gamma=3` reaches it. Options at their default are written out, so that a run has one name.

    The files of `plugins` are run, and so are those that the settings themselves name: settings that are translated
    are those of the person at work, from a command, a bench file or Python.

    Args:
        tree: nested settings, with all differences laid over each other.
        plugins: files whose kinds may be named.
        spec_type: what the settings are of.

    Raises:
        SettingsError: a plugin cannot be used, takes a name that is taken, or refuses an option.
    """
    places = tuple(places_of(spec_type))
    kinds = kinds_of(plugins, places)
    for place in places:
        branch = _at(tree, place.path)
        if isinstance(branch, Mapping) and branch.get("kind") in {EXTERNAL, *kinds}:
            tree = _replaced(tree, place.path.split("."), _external(branch, place, kinds))
    return tree


def places_of(spec_type: type[BaseModel]) -> Iterator[Place]:
    """Where a plugin can stand below a spec type: at the options of which external is one kind."""
    for node in walk(spec_type):
        yield from (Place(plain_path(node.path), v, node.kinds) for v in node.branches if kind_of(v) == EXTERNAL)


def kinds_of(plugins: Sequence[str], places: Sequence[Place]) -> dict[str, Kind]:
    """The kinds that files of plugins define, by name; the files are run.

    Raises:
        SettingsError: a file cannot be used or defines no loss or head, or a kind has a name that is taken.
    """
    taken = {name: "the library" for place in places for name in place.known}
    found: dict[str, Kind] = {}
    for file in dict.fromkeys(plugins):
        for kind, one in _kinds_in(file).items():
            if kind in taken:
                raise SettingsError(
                    f"a kind has one meaning, however: {kind!r} of {file} is one of {taken[kind]} already. Rename it."
                )
            taken[kind], found[kind] = file, one
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
            "a plugin defines frostbench.heads.spec.Spec classes with a kind of their own and with __call__ or part (a "
            f'loss) or build (a head), however: {file} has {kinds or "none"}. Write `kind: Literal["my_loss"] = '
            '"my_loss"`.'
        )
    return found


def _external(branch: Mapping[str, Any], place: Place, kinds: Mapping[str, Kind]) -> Tree:
    """The branch of a place as kind external, with what the plugin itself makes of its options.

    Without a file there is nothing to ask; that one is missing is a matter of `frostbench.training.checks.conflicts`.
    """
    kind = kinds.get(str(branch["kind"]))
    if kind is None:
        own = {key: value for key, value in branch.items() if key in OWN_FIELDS}
        beside = {key: value for key, value in branch.items() if key not in OWN_FIELDS}
        tree = own | {"options": {**(own.get("options") or {}), **beside}}
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
        raise SettingsError(f"{place.path}: {error}") from error
    return {**spec.model_dump(mode="json"), "options": inner}


def files_of(spec: BaseModel) -> tuple[str, ...]:
    """The files of the plugins that a spec names, without running them."""
    held: list[Any] = [node.value for node in walk(spec) if isinstance(node.value, BaseModel)]
    return tuple(str(value.file) for value in held if kind_of(value) == EXTERNAL)


def check_allowed(spec: BaseModel, plugins: Sequence[str | Path]) -> None:
    """Refuse a spec that names a file which nobody allowed to be run: for specs that come from a browser.

    Raises:
        SettingsError: the spec names a plugin that is none of these files.
    """
    allowed = {Path(file).resolve() for file in plugins}
    foreign = [file for file in files_of(spec) if Path(file).resolve() not in allowed]
    if foreign:
        raise SettingsError(
            f"plugins run code, so the page takes those of {sorted(map(str, plugins))}, however: {foreign} came. "
            "Start it with `frostbench app --plugin FILE`."
        )


def _at(tree: Mapping[str, Any], path: str) -> Any:
    value: Any = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _replaced(tree: Mapping[str, Any], path: Sequence[str], branch: Tree) -> Tree:
    first, *rest = path
    return {**tree, first: _replaced(tree[first], rest, branch) if rest else branch}
