"""Importing gradio in about half the time.

Whenever gradio is imported, it parses the source of each of its components twice and renders the type stub that an
editor reads beside it. On Python 3.11 that takes longer than all else in it, and nothing reads the stubs at run time.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

MODULE, WRITER = "gradio.component_meta", "create_or_modify_pyi"


def import_gradio() -> None:
    """Import gradio without writing its stubs; where it no longer has the module or function that does, as usual."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("gradio")
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the one module whose loading is changed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == MODULE else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads it as ever, then takes the writing of stubs out before another module asks for it."""

    def __init__(self, usual: Loader) -> None:
        self.usual = usual

    def exec_module(self, module: ModuleType) -> None:
        self.usual.exec_module(module)
        if hasattr(module, WRITER):
            setattr(module, WRITER, lambda *_, **__: None)
