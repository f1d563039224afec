"""Checks of the plugins that a job names: a worker runs only those that the page was started with."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app.jobs.records import JobError, Request

NOT_SETTINGS = ("name", "caches", "store")
"""Keys of a bench that are not settings."""


def plugins_of(bench: Mapping[str, Any], folder: str | Path) -> list[str]:
    """Return the absolute path of every file that a bench could execute whose relative paths start from a folder.

    `frostbench.heads.plugin_files` executes only files named by a text that ends with .py. Texts anywhere in the bench
    are checked, so that none is overlooked.
    """
    parts = [value for name, value in bench.items() if name not in NOT_SETTINGS]
    files = [text for text in _texts(parts) if text.endswith(".py")]
    return list(dict.fromkeys(str(Path(folder, text).resolve()) for text in files))


def disallowed_plugins(request: Request, plugins: Sequence[str | Path]) -> list[str]:
    """Return the plugins of a job that are not among the allowed ones."""
    return disallowed_in(request.bench, request.folder, plugins)


def disallowed_in(bench: Mapping[str, Any], folder: str | Path, plugins: Sequence[str | Path]) -> list[str]:
    """Return the plugins of a bench, whose relative paths start from a folder, that are not among the allowed ones."""
    allowed = {str(Path(file).resolve()) for file in plugins}
    return [file for file in plugins_of(bench, folder) if file not in allowed]


def check_plugins(request: Request, plugins: Sequence[str | Path]) -> None:
    """Check that a job names only allowed plugins.

    Raises:
        JobError: the job names another plugin.
    """
    disallowed = disallowed_plugins(request, plugins)
    if disallowed:
        raise JobError(
            f"A job may only run plugins that the page was started with, but this one names {', '.join(disallowed)}. "
            f"Start the page with {plugin_options(disallowed)}."
        )


def plugins_message(files: Sequence[str]) -> str:
    """Return the message of a job that waits for a page with its plugins; empty without files."""
    return f"Waiting for a page that was started with {plugin_options(files)}." if files else ""


def plugin_options(files: Sequence[str]) -> str:
    """Return files as command-line options of the page.

    >>> plugin_options(["/a.py", "/b.py"])
    '--plugin /a.py --plugin /b.py'
    """
    return " ".join(f"--plugin {file}" for file in files)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
