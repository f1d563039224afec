"""Checks of class and group names: blank names, names that look alike, and names that break a line."""

import re
import unicodedata
from collections.abc import Iterable

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
"""Invisible characters: zero-width ones, soft hyphens, direction marks, variation selectors, fillers."""
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that end a line, move the terminal's cursor, change the writing direction, or are not text."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def is_blank(name: str) -> bool:
    r"""Return whether a name has no visible character.

    >>> is_blank(""), is_blank(" \u00a0\u200b"), is_blank("NA")
    (True, True, False)
    """
    return not _UNSEEN.sub("", name).strip()


def seen_as(name: str) -> str:
    r"""Normalise case, spaces, invisible characters and the encoding of accents, so that similar names become equal.

    >>> seen_as("Gro\u0308\u00dfe\u200b ") == seen_as("gr\u00f6\u00dfe")
    True
    """
    return " ".join(unicodedata.normalize("NFC", _UNSEEN.sub("", name).casefold()).split())


def alike_names(names: Iterable[str], what: str = "class names", each: str = "classes") -> list[str]:
    """Return a warning if names differ only by case, spaces, invisible characters or the encoding of accents.

    >>> [warning.split(": ")[1] for warning in alike_names(["cat", "dog", "Cat "])]
    ["'Cat ' and 'cat'. Rename them if they mean the same thing."]

    Args:
        names: names as they are written; repetitions are allowed.
        what: plural noun for the names, used in the warning.
        each: plural noun for what they identify, used in the warning.
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(seen_as(name), []).append(name)
    several = [" and ".join(map(ascii, found)) for found in alike.values() if len(found) > 1]
    if not several:
        return []
    shown = ", ".join(several[:5]) + (" …" if len(several) > 5 else "")
    return [
        f"Some {what} differ only by case, spaces, invisible characters or the encoding of accents, and count as "
        f"separate {each}: {shown}. Rename them if they mean the same thing."
    ]


def check_names(names: Iterable[str], where: str) -> list[str]:
    """Refuse blank class names, and return the warnings of `alike_names`.

    Args:
        names: class names.
        where: their origin, for the message.

    Raises:
        ValueError: a name is blank.
    """
    known = set(names)
    blank = sorted(name for name in known if is_blank(name))
    if blank:
        raise ValueError(
            f"class names must have a visible character, but {where} gives {', '.join(map(ascii, blank[:3]))}. "
            "Rename the class."
        )
    return alike_names(known)


def one_line(text: str) -> str:
    r"""Escape line breaks, control characters and direction marks, so that a text stays on one line.

    >>> one_line("two\nlines\x1b[0m")
    'two\\nlines\\x1b[0m'
    """
    return _BREAKING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
