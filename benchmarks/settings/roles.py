"""Converts the names that users give to the rows of a comparison into stored roles."""

from typing import Literal

from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.embedcache.splits.role_names import role_called

RoleName = Literal["validation", "test", "select"]
"""Names that users may give; `select` is the stored name of the validation rows."""


def role_of(name: str) -> Literal["select", "test"]:
    """Return the stored role of rows to compare on.

    >>> role_of("validation"), role_of("select"), role_of("test")
    ('select', 'select', 'test')

    Raises:
        SettingsError: the name is neither validation nor test.
    """
    role = role_called(name)
    if role == "test":
        return "test"
    if role == "select":
        return "select"
    raise SettingsError(f"Rows to compare on must be validation or test, got {name!r}.")
