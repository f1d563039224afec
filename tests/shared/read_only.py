"""A folder that cannot be written, also for root, whom permissions do not stop."""

import os
from pathlib import Path
from typing import Any

import pytest


def make_read_only(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    """Fail with an error number whenever something below a folder is made, opened for writing, renamed or deleted."""
    inside = folder.resolve()

    def check(path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike) and Path(os.fsdecode(path)).resolve().is_relative_to(inside):
            raise OSError(number, os.strerror(number), os.fsdecode(path))

    real_open = os.open

    def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            check(path)
        return real_open(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", opened)
    for name in ("mkdir", "rename", "replace", "unlink", "rmdir"):
        _guard(monkeypatch, name, check)


def _guard(monkeypatch: pytest.MonkeyPatch, name: str, check: Any) -> None:
    real = getattr(os, name)

    def guarded(path: Any, *rest: Any, **named: Any) -> Any:
        check(path)
        return real(path, *rest, **named)

    monkeypatch.setattr(os, name, guarded)
