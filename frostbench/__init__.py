"""Frostbench: get the best classifier out of frozen image embeddings.

Most scripts and notebooks need only the names below. They are imported on first use, so that `import frostbench` is
fast.

>>> import frostbench
>>> sorted(frostbench.__all__)
['Cache', '__version__', 'compare', 'fit', 'load']
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frostbench.benchmarks.api import compare, fit, load
    from frostbench.embedcache.cache import Cache

    __version__: str
else:
    # Type checkers read the imports above; with `__getattr__` in sight they would accept any name.
    _MODULES = {
        "Cache": "frostbench.embedcache.cache",
        "compare": "frostbench.benchmarks.api",
        "fit": "frostbench.benchmarks.api",
        "load": "frostbench.benchmarks.api",
    }

    def __getattr__(name):
        """Import a public name on first use (PEP 562)."""
        if name == "__version__":
            from importlib.metadata import version

            value = version("frostbench")
        elif name in _MODULES:
            from importlib import import_module

            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        """List all public names, including those not imported yet."""
        return sorted({*globals(), *__all__})


__all__ = ["Cache", "__version__", "compare", "fit", "load"]
