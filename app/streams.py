"""Standard output and error that take every character, whatever encoding the terminal or the pipe has."""

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
"""How characters of our own sentences are written where there is nothing but ASCII."""
HANDLER = "frostbench.escape"


def accept_all_characters() -> None:
    """Let standard output and error write what their encoding lacks as escapes, in place of ending the command.

    Names in predictions are still told apart; `--out` writes them as they are.
    """
    codecs.register_error(HANDLER, escape)
    for stream in (sys.stdout, sys.stderr):
        # Streams of other programs, such as a notebook's, and those of a process without a terminal have no encoding.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def escape(error: UnicodeError) -> tuple[str, int]:
    r"""What is written in place of characters that an encoding lacks: our signs in ASCII, all others as JSON does.

    >>> codecs.register_error(HANDLER, escape)
    >>> "3 × größe … 日本 😀".encode("ascii", HANDLER)
    b'3 x gr\\u00f6\\u00dfe ... \\u65e5\\u672c \\ud83d\\ude00'

    Raises:
        UnicodeError: the error is none of writing.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_escaped, error.object[error.start : error.end])), error.end


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return _SIMPLE.get(character) or "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
