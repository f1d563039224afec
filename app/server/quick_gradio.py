"""Importing gradio in about half the time.

On import, gradio parses the source of each of its components twice and writes type stubs for editors. On Python 3.11
this takes longer than the rest of the import, and the stubs are not used at run time.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

MODULE, WRITER = "gradio.component_meta", "create_or_modify_pyi"


def import_gradio() -> None:
    """Import gradio without writing its stubs, or normally if it no longer has the function that writes them."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("gradio")
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finder that replaces the loader of one module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == MODULE else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loader that loads a module and then disables its function that writes stubs."""

    def __init__(self, original: Loader) -> None:
        self.original = original

    def exec_module(self, module: ModuleType) -> None:
        self.original.exec_module(module)
        if hasattr(module, WRITER):
            setattr(module, WRITER, lambda *_, **__: None)
