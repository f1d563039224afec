"""Extracting groups and times from image ids with a regex."""

import re
from collections.abc import Sequence

EXAMPLES = {
    "group": r"([^/]+)_[0-9]+\.png$ for the part of a file name before its number",
    "time": r"_([0-9]{8})_ for a date such as 20240131 between underscores",
}


def parts_of(ids: Sequence[str], regex: str, what: str) -> list[str]:
    """Extract a part of each id: the first capture group of the regex, or the whole match if it has none.

    >>> parts_of(["a/x_1.png", "a/y_2.png"], "([a-z])_", "group")
    ['x', 'y']

    Args:
        ids: ids of the images.
        regex: searched in each id.
        what: "group" or "time", for messages.

    Raises:
        ValueError: the regex is invalid, or does not match an id.
    """
    try:
        pattern = re.compile(regex)
    except re.error as error:
        raise ValueError(
            f"The {what} regex must be valid, but '{regex}' is not ({error}). Use a Python regular expression, "
            f"for example {EXAMPLES[what]}."
        ) from error
    found = [_part(pattern.search(one)) for one in ids]
    missing = [one for one, part in zip(ids, found, strict=True) if part is None]
    if missing:
        raise ValueError(
            f"The {what} regex must match every id, but '{regex}' does not match {len(missing)} of {len(ids)} "
            f"ids, for example {', '.join(map(repr, missing[:3]))}. Widen the regex."
        )
    return [part for part in found if part is not None]


def _part(match: re.Match[str] | None) -> str | None:
    if match is None:
        return None
    return (match[1] if match.re.groups else match[0]) or None
