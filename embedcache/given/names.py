"""Names of classes and groups: which show nothing, and which look alike."""

import unicodedata

INVISIBLE = frozenset("\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\ufeff\uffa0")
"""Characters that show nothing though Unicode does not call them spaces or formatting."""


def seen(name: str) -> str:
    r"""A name as a reader sees it: composed accents, no invisible characters, and single plain spaces between words.

    >>> seen("cafe\u0301\u200b \u00a0au  lait ") == "caf\u00e9 au lait"
    True
    """
    spaced = (" " if c.isspace() else c for c in unicodedata.normalize("NFC", name))
    return " ".join("".join(c for c in spaced if not _shows_nothing(c)).split())


def is_blank(name: str) -> bool:
    r"""Whether a name shows nothing.

    >>> is_blank("\u200b \u00a0"), is_blank("0")
    (True, False)
    """
    return not seen(name)


def _shows_nothing(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cf") or c in INVISIBLE
