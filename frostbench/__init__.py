"""Frostbench: get the best classifier out of frozen image embeddings.

The names below are all that most scripts and notebooks need. They are imported when they are first used, so that
`import frostbench` takes no time.

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
    # Type checkers read the imports above, and would take any name for one that `__getattr__` has.
    _MODULES = {
        "Cache": "frostbench.embedcache.cache",
        "compare": "frostbench.benchmarks.api",
        "fit": "frostbench.benchmarks.api",
        "load": "frostbench.benchmarks.api",
    }

    def __getattr__(name):
        """Import a public name at its first use (PEP 562)."""
        if name == "__version__":
            from importlib.metadata import version

            found = version("frostbench")
        elif name in _MODULES:
            from importlib import import_module

            found = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__():
        """List the public names too, whether they were used or not."""
        return sorted({*globals(), *__all__})


__all__ = ["Cache", "__version__", "compare", "fit", "load"]
