"""Roles of rows, and their common names in split columns and folders."""

ROLES = ("train", "select", "calibrate", "test")
GIVEN_NAMES = {
    "train": ("train", "training"),
    "select": ("val", "valid", "validation", "dev", "select"),
    "calibrate": ("calibrate", "calibration"),
    "test": ("test", "testing"),
}
ROLE_OF = {name: role for role, names in GIVEN_NAMES.items() for name in names}


def role_called(name: str) -> str | None:
    """Return the role that a name stands for, or None.

    >>> role_called("Valid "), role_called("holdout")
    ('select', None)
    """
    return ROLE_OF.get(name.strip().lower())
