"""Spec classes from a file outside the repository: checked against a SHA-256, and run when someone names it.

`run_plugin` is the one place where such a file is run. What reads a spec, a bundle or a record of a run finds the
classes of files that were run before in this process, by their SHA-256, and never runs one: a bundle may come from
anywhere.
"""

import ast
import hashlib
import importlib.util
import json
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import JsonValue, ValidationError

from frostbench.heads.spec import Spec, rule_of

_RAN = "__frostbench_ran__"
_FOLDERS = ("app", "benchmarks", "configs", "embedcache", "heads", "training")
"""What Frostbench's packages were called before they had the one import name."""
_RUNNING = threading.RLock()


class PluginError(ValueError):
    """A plugin's file is missing, changed, not named or does not run; or its class lacks or refuses something."""


def file_hash(file: str | Path) -> str:
    """SHA-256 of a plugin's file, in hexadecimal.

    Raises:
        PluginError: there is no such file, or it is no .py file.
    """
    return hashlib.sha256(_read(file)).hexdigest()


def _read(file: str | Path) -> bytes:
    if not str(file).endswith(".py") or not Path(file).is_file():
        raise PluginError(
            f"a plugin is a .py file, however: {str(file)!r} is none, seen from {Path.cwd()}. Put the file there, or "
            "start where it is."
        )
    return Path(file).read_bytes()


def run_plugin(file: str | Path, sha256: str = "") -> str:
    """Run a plugin's file as code, once for each content; returns its SHA-256.

    To be called with files alone that the person at work has named: `--plugin`, a bench file, an argument in Python.

    Args:
        file: path of a .py file.
        sha256: what its content must hash to; empty takes it as it is.

    Raises:
        PluginError: the file is missing, hashes to something else, or raises when it runs.
    """
    with _RUNNING:
        return sha256 if sha256 and was_run(sha256) else _run_once(file, sha256)


def _run_once(file: str | Path, sha256: str) -> str:
    # What is run are the bytes that were hashed.
    source = _read(file)
    found = hashlib.sha256(source).hexdigest()
    if sha256 and found != sha256:
        raise PluginError(
            f"{file} must be the file whose SHA-256 is {sha256}, however: it has {found}. Restore that file, or clear "
            "sha256 to take the new one."
        )
    if not was_run(found):
        _check_names(str(file), source)
        _run(str(file), source, _module_name(found))
    return found


def _check_names(file: str, source: bytes) -> None:
    """Refuse imports by the names from before `frostbench`, which a checkout would give classes of their own.

    Raises:
        PluginError: a statement of the file imports `heads` or the like, and there is no such package of the user's.
    """
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):  # whoever runs the file reports it
        return
    for statement in statements:
        before, old = ast.unparse(statement), _rename(statement)
        if old:
            raise PluginError(
                f"a plugin imports Frostbench by its one name, however: line {statement.lineno} of {file} is "
                f"`{before}`, and {old[0]!r} is now 'frostbench.{old[0]}'. Write `{ast.unparse(statement)}`."
            )


def _rename(statement: ast.stmt) -> list[str]:
    """Put `frostbench.` before old names in an import, and return them."""
    old = []
    if isinstance(statement, ast.ImportFrom) and statement.level == 0 and _has_moved(statement.module or ""):
        old = [(statement.module or "").partition(".")[0]]
        statement.module = f"frostbench.{statement.module}"
    for alias in statement.names if isinstance(statement, ast.Import) else ():
        if _has_moved(alias.name):
            old.append(alias.name.partition(".")[0])
            alias.name = f"frostbench.{alias.name}"
    return old


def _has_moved(module: str) -> bool:
    """Whether a module is one of ours under its old name; a package of the user's own may have that name too."""
    top = module.partition(".")[0]
    if top not in _FOLDERS:
        return False
    found, ours = importlib.util.find_spec(top), importlib.util.find_spec(f"frostbench.{top}")
    if found is None or found.origin is None or ours is None or ours.origin is None:
        return found is None
    return Path(found.origin).resolve() == Path(ours.origin).resolve()


def was_run(sha256: str) -> bool:
    """Whether a file of this SHA-256 was run in this process."""
    return getattr(sys.modules.get(_module_name(sha256)), _RAN, False)


def _module_name(sha256: str) -> str:
    return f"frostbench_plugin_{sha256}"


def _run(file: str, source: bytes, name: str) -> None:
    module = ModuleType(name)
    module.__file__ = file
    # pydantic and dataclasses look up annotations by the module's name.
    sys.modules[name] = module
    try:
        exec(compile(source, file, "exec"), module.__dict__)
        setattr(module, _RAN, True)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise PluginError(
            f"a plugin must run as a Python file, however: {file} ends with {type(error).__name__}: {error}. Try "
            f"`python {file}`."
        ) from error


def spec_classes(file: str | Path, sha256: str) -> dict[str, type[Spec]]:
    """The Spec classes that a file with a SHA-256 defines, by name; those that it imports are left out.

    The file itself is not looked at: what counts is what was run.

    Raises:
        PluginError: no file of this SHA-256 was run in this process.
    """
    if not was_run(sha256):
        raise PluginError(
            f"a plugin is code, which runs only where someone names its file, however: {file} (SHA-256 {sha256}) was "
            "named by nobody. Read it, then give `--plugin FILE` (in Python `plugins=[FILE]`, or "
            "`frostbench.heads.plugin_files.run_plugin(FILE)`)."
        )
    module = sys.modules[_module_name(sha256)]
    found = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    return {name: v for name, v in found.items() if issubclass(v, Spec) and v.__module__ == module.__name__}


def plugin(file: str, sha256: str, name: str, options: Mapping[str, JsonValue], *methods: str) -> Spec:
    """An instance of a class of a file, with its options checked by the class.

    Args:
        file: path of a .py file that was run (see `run_plugin`).
        sha256: what it hashed to; empty takes the file as it is.
        name: the class.
        options: its fields that are not at their default.
        methods: what the class must have one of, such as build.

    Raises:
        PluginError: as `spec_classes`; the file has no such class, the class none of the methods, or an option is
            unknown or not allowed.
    """
    return _instance(file, sha256 or file_hash(file), name, json.dumps(dict(options), sort_keys=True), methods)


@lru_cache(maxsize=1024)
def _instance(file: str, sha256: str, name: str, options: str, methods: tuple[str, ...]) -> Spec:
    classes = spec_classes(file, sha256)
    if name not in classes:
        raise PluginError(
            f"a plugin's class is a frostbench.heads.spec.Spec of its file, however: {file} has {sorted(classes)} "
            f"and {name!r} was asked for. Name one of these."
        )
    if not any(has_method(classes[name], method) for method in methods):
        raise PluginError(
            f"a class used here has the method {' or '.join(methods)}, however: {name} of {file} has none. Write it."
        )
    try:
        return classes[name].model_validate(json.loads(options))
    except ValidationError as error:
        raise PluginError(_refused(error, classes[name], file)) from error


def _refused(error: ValidationError, spec_type: type[Spec], file: str) -> str:
    """Every option that the class refused, by name."""
    told = []
    for item in error.errors(include_url=False):
        place = ".".join(map(str, item["loc"])) or "options"
        told.append(f"{place}: {rule_of(item)}, however: {item.get('input')!r} came.")
    known = [name for name in spec_type.model_fields if name != "kind"]
    return "\n".join([*told, f"The options of {spec_type.__name__} in {file} are {known}."])


def has_method(spec_type: type[Spec], method: str) -> bool:
    """Whether a class defines a method; `hasattr` would find that of the class's own type for __call__."""
    return any(method in vars(each) for each in spec_type.__mro__)


def stackable(spec: Spec) -> bool:
    """Whether heads with this spec may be trained as one stack; a class says no by `stacks: ClassVar[bool] = False`."""
    stacks: Any = getattr(type(spec), "stacks", True)
    if not isinstance(stacks, bool):
        raise PluginError(
            f"stacks must be True or False, however: {type(spec).__name__} has {stacks!r}. Write "
            "`stacks: ClassVar[bool] = False` or leave it out."
        )
    return stacks


def not_stackable(spec: Spec, error: Exception) -> PluginError:
    """What is told of a class that says it stacks and fails under torch.func.vmap."""
    name = type(spec).__name__
    return PluginError(
        f"a plugin that stacks must run under torch.func.vmap, however: {name} ends with {type(error).__name__}: "
        f"{str(error).splitlines()[0] if str(error) else 'no message'} Branch with torch.where instead of `if`, write "
        f"nothing in place, or add `stacks: ClassVar[bool] = False` to {name}."
    )
