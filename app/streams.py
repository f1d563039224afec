"""Standard output and error that accept every character, whatever the encoding of the terminal or pipe."""

import codecs
import sys

_SIMPLE = {
    "…": "...",
    "×": "x",
    "→": "->",
    "–": "-",
    "—": "-",
    "−": "-",
    "±": "+/-",
    "·": "-",
    "’": "'",
    "“": '"',
    "”": '"',
}
"""ASCII replacements for characters that our own messages use."""
HANDLER = "frostbench.escape"


def accept_all_characters() -> None:
    """Make standard output and error escape the characters that their encoding lacks instead of raising an error.

    Escaped names stay distinct; `--out` writes them unescaped.
    """
    codecs.register_error(HANDLER, escape)
    for stream in (sys.stdout, sys.stderr):
        # The streams of a notebook, or of a process without a terminal, may not be reconfigurable.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def escape(error: UnicodeError) -> tuple[str, int]:
    r"""Return the replacement for characters that an encoding lacks: ASCII for our symbols, JSON escapes for others.

    >>> codecs.register_error(HANDLER, escape)
    >>> "3 × größe … 日本 😀".encode("ascii", HANDLER)
    b'3 x gr\\u00f6\\u00dfe ... \\u65e5\\u672c \\ud83d\\ude00'

    Raises:
        UnicodeError: the error is not an encoding error.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_escaped, error.object[error.start : error.end])), error.end


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return _SIMPLE.get(character) or "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
