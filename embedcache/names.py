"""Names of classes and groups as people write them: which are none, which look alike, and how they fit into a line."""

import re
import unicodedata
from collections.abc import Iterable

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
"""Characters that take no room: zero-width ones, soft hyphens, marks of direction, selectors of variants, fillers."""
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that end a line, move the cursor of a terminal, turn the direction of writing, or are no text."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def is_blank(name: str) -> bool:
    r"""Whether nothing of a name can be seen: it is empty, or holds blanks and characters without width alone.

    >>> is_blank(""), is_blank(" \u00a0\u200b"), is_blank("NA")
    (True, True, False)
    """
    return not _UNSEEN.sub("", name).strip()


def seen_as(name: str) -> str:
    r"""What all names that look alike have in common: no case, no unseen characters, one form of accents.

    >>> seen_as("Gro\u0308\u00dfe\u200b ") == seen_as("gr\u00f6\u00dfe")
    True
    """
    return " ".join(unicodedata.normalize("NFC", _UNSEEN.sub("", name).casefold()).split())


def alike_names(names: Iterable[str], what: str = "class names", each: str = "classes") -> list[str]:
    """A warning, if any names differ only by case, blanks, characters that cannot be seen, and the form of accents.

    >>> [warning.split(": ")[1] for warning in alike_names(["cat", "dog", "Cat "])]
    ["'Cat ' and 'cat'. Rename them if they mean one thing."]

    Args:
        names: as they are written; the same one may come several times.
        what: they are.
        each: what every one of them counts as.
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(seen_as(name), []).append(name)
    several = [" and ".join(map(ascii, found)) for found in alike.values() if len(found) > 1]
    if not several:
        return []
    shown = ", ".join(several[:5]) + (" …" if len(several) > 5 else "")
    return [
        f"Some {what} differ only by case, spaces, characters that cannot be seen or the form of accents, and count as "
        f"separate {each}: {shown}. Rename them if they mean one thing."
    ]


def check_names(names: Iterable[str], where: str) -> list[str]:
    """Refuse class names of which nothing can be seen; the warnings of `alike_names` for the others.

    Args:
        names: of the classes.
        where: they come from, for the message.

    Raises:
        ValueError: a name is blank.
    """
    known = set(names)
    blank = sorted(name for name in known if is_blank(name))
    if blank:
        raise ValueError(
            f"the name of a class must hold something that can be seen, however: {', '.join(map(ascii, blank[:3]))} "
            f"came from {where}. Rename it."
        )
    return alike_names(known)


def one_line(text: str) -> str:
    r"""A text that stays in its line: line breaks, control characters and marks of direction as escapes.

    >>> one_line("two\nlines\x1b[0m")
    'two\\nlines\\x1b[0m'
    """
    return _BREAKING.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
