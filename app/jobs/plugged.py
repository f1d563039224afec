"""The plugins that a job names: its worker runs only those that the page was started with, which starts it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from frostbench.app.jobs.files import JobError, Request

NEVER_RUN = ("name", "caches", "store")
"""Parts of a bench that are no settings."""


def plugins_of(request: Request) -> list[str]:
    """Every file that a job could run as code, with its whole path.

    `frostbench.heads.plugin_files` runs what is named by a text that ends with .py, and nothing else; where it stands
    in the bench is not asked, so that none is overlooked.
    """
    parts = [value for name, value in request.bench.items() if name not in NEVER_RUN]
    named = [text for text in _texts(parts) if text.endswith(".py")]
    return list(dict.fromkeys(str(Path(request.folder, text).resolve()) for text in named))


def unnamed(request: Request, plugins: Sequence[str | Path]) -> list[str]:
    """The plugins of a job that are none of those that may be run."""
    allowed = {str(Path(file).resolve()) for file in plugins}
    return [file for file in plugins_of(request) if file not in allowed]


def check_plugins(request: Request, plugins: Sequence[str | Path]) -> None:
    """Refuse a job that names a plugin which nobody allowed to be run.

    Raises:
        JobError: it does.
    """
    foreign = unnamed(request, plugins)
    if foreign:
        raise JobError(
            f"a job runs plugins that its page was started with, however: it names {', '.join(foreign)}. Start the "
            f"page with {options(foreign)}."
        )


def needs(files: Sequence[str]) -> str:
    """What a job says that waits for a page which may run its plugins; nothing without files."""
    return f"Waits for a page that was started with {options(files)}." if files else ""


def options(files: Sequence[str]) -> str:
    """Files as one names them when the page is started.

    >>> options(["/a.py", "/b.py"])
    '--plugin /a.py --plugin /b.py'
    """
    return " ".join(f"--plugin {file}" for file in files)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
