"""Progress bars and notes on the terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from frostbench.embedcache.names import one_line


@dataclass(frozen=True)
class Bar:
    """A progress bar."""

    progress: Progress
    task: TaskID

    def move(self, done: float, total: float, text: str | None = None) -> None:
        """Set the completed and total amounts, and optionally the description."""
        self.progress.update(self.task, completed=done, total=total)
        if text is not None:
            self.describe(text)

    def describe(self, text: str) -> None:
        """Set the description of the current step."""
        self.progress.update(self.task, description=text)


@contextmanager
def bar(text: str) -> Iterator[Bar]:
    """Show a progress bar while the block runs, if standard error is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, markup=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task(text, total=None))


def note(text: str) -> None:
    """Print a note for the user as one line on standard error."""
    print(f"note: {one_line(text)}", file=sys.stderr)


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Turn Ctrl-C within the block into a message about what is kept, and exit status 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"stopped: {kept} Run the same command again to resume.", file=sys.stderr)
        raise typer.Exit(130) from None
