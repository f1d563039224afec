"""Running plugin files: Python files outside the repository that define Spec classes.

Only `run_plugin` runs such a file. Code that reads a spec, a bundle or a run's record never runs one, because a bundle
may come from anywhere; it finds the file by its SHA-256 among those already run in this process.
"""

import ast
import hashlib
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

from frostbench.heads.spec import Spec

_RAN = "__frostbench_ran__"
_FOLDERS = ("app", "benchmarks", "configs", "embedcache", "heads", "training")
"""Top-level names of Frostbench's packages before they moved below `frostbench`."""
_RUNNING = threading.RLock()


class PluginError(ValueError):
    """A plugin's file is missing, changed, not named by the user or fails to run, or its class is not usable."""


def file_hash(file: str | Path) -> str:
    """Return the SHA-256 of a plugin's file, in hexadecimal.

    Raises:
        PluginError: the file does not exist or is not a .py file.
    """
    return hashlib.sha256(_read(file)).hexdigest()


def _read(file: str | Path) -> bytes:
    if not str(file).endswith(".py") or not Path(file).is_file():
        raise PluginError(
            f"A plugin must be a .py file, got {str(file)!r}, which is missing in {Path.cwd()} or does not end in .py. "
            "Put the file there, or start from its folder."
        )
    return Path(file).read_bytes()


def run_plugin(file: str | Path, sha256: str = "") -> str:
    """Run a plugin's file as code, once per content, and return its SHA-256.

    Call it only with files that the user named: by `--plugin`, in a bench file, or as an argument in Python.

    Args:
        file: path to a .py file.
        sha256: required hash of the content; empty accepts any.

    Raises:
        PluginError: the file is missing, has another hash, or raises when it runs.
    """
    with _RUNNING:
        return sha256 if sha256 and was_run(sha256) else _run_once(file, sha256)


def _run_once(file: str | Path, sha256: str) -> str:
    # Run the very bytes that were hashed.
    source = _read(file)
    found = hashlib.sha256(source).hexdigest()
    if sha256 and found != sha256:
        raise PluginError(
            f"{file} must have the SHA-256 {sha256}, but has {found}. Restore that file, or clear sha256 to accept the "
            "new one."
        )
    if not was_run(found):
        _check_names(str(file), source)
        _run(str(file), source, _module_name(found))
    return found


def _check_names(file: str, source: bytes) -> None:
    """Reject imports by the old top-level names: in a checkout they would load second copies of our classes.

    Raises:
        PluginError: the file imports `heads` or another old name that is not a package of the user's own.
    """
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):  # reported when the file is run
        return
    for statement in statements:
        before, old = ast.unparse(statement), _rename(statement)
        if old:
            raise PluginError(
                f"A plugin must import {old[0]!r} as 'frostbench.{old[0]}', but line {statement.lineno} of {file} is "
                f"`{before}`. Write `{ast.unparse(statement)}`."
            )


def _rename(statement: ast.stmt) -> list[str]:
    """Prefix old names in an import with `frostbench.`, and return them."""
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
    """Return whether a module is one of ours under its old name, and not a package of the user's own."""
    top = module.partition(".")[0]
    if top not in _FOLDERS:
        return False
    found, ours = importlib.util.find_spec(top), importlib.util.find_spec(f"frostbench.{top}")
    if found is None or found.origin is None or ours is None or ours.origin is None:
        return found is None
    return Path(found.origin).resolve() == Path(ours.origin).resolve()


def was_run(sha256: str) -> bool:
    """Return whether a file with this SHA-256 was run in this process."""
    return getattr(sys.modules.get(_module_name(sha256)), _RAN, False)


def _module_name(sha256: str) -> str:
    return f"frostbench_plugin_{sha256}"


def _run(file: str, source: bytes, name: str) -> None:
    module = ModuleType(name)
    module.__file__ = file
    # pydantic and dataclasses resolve annotations through the module's name.
    sys.modules[name] = module
    try:
        exec(compile(source, file, "exec"), module.__dict__)
        setattr(module, _RAN, True)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise PluginError(
            f"A plugin must run as a Python file, but {file} fails with {type(error).__name__}: {error}. Try "
            f"`python {file}`."
        ) from error


def spec_classes(file: str | Path, sha256: str) -> dict[str, type[Spec]]:
    """Return the Spec classes that a file defines, by name, without those it imports.

    The file is found by its SHA-256 among those already run; it is not read again.

    Raises:
        PluginError: no file with this SHA-256 was run in this process.
    """
    if not was_run(sha256):
        raise PluginError(
            f"A plugin is code and runs only if you name its file, but {file} (SHA-256 {sha256}) was not named. Read "
            "it, then pass `--plugin FILE` (in Python `plugins=[FILE]`, or "
            "`frostbench.heads.plugin_files.run_plugin(FILE)`)."
        )
    module = sys.modules[_module_name(sha256)]
    classes = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    return {name: v for name, v in classes.items() if issubclass(v, Spec) and v.__module__ == module.__name__}


def has_method(spec_type: type[Spec], method: str) -> bool:
    """Return whether a class defines a method; `hasattr` would find its metaclass's `__call__`."""
    return any(method in vars(base) for base in spec_type.__mro__)


def not_stackable(spec: Spec, error: Exception) -> PluginError:
    """Return the error for a class that claims to stack but fails under torch.func.vmap."""
    name = type(spec).__name__
    return PluginError(
        f"A plugin that stacks must run under torch.func.vmap, but {name} fails with {type(error).__name__} "
        f"({str(error).splitlines()[0] if str(error) else 'no message'}). Branch with torch.where instead of `if`, "
        f"avoid in-place writes, or add `stacks: ClassVar[bool] = False` to {name}."
    )
