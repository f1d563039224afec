"""Text files as people have them: UTF-8, or UTF-16 and UTF-32 as spreadsheets save them; anything else is named."""

import codecs
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 4096


def read_text(path: Path, what: str) -> str:
    """The text of a file.

    Args:
        path: of the file.
        what: it is, for messages, such as "a manifest".

    Raises:
        ValueError: it is text in none of the encodings that can be told from its bytes.
        OSError: it cannot be read.
    """
    return decode_text(path.read_bytes(), what, path)


def decode_text(data: bytes, what: str, path: Path) -> str:
    """The text that bytes encode: by their byte order mark, else UTF-16 where they have its zeros, else UTF-8.

    >>> decode_text("größe".encode("utf-16"), "a list", Path("x.csv"))
    'größe'

    Raises:
        ValueError: they are not such text; says where it ends.
    """
    encoding = _encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(_told(error, data, what, path, encoding)) from error
    if "\0" in text:
        raise ValueError(
            f"{what} must be a text file, however: {path} holds NUL characters, the first is character "
            f"{text.index(chr(0))}. Is it another kind of file? Save it with the encoding UTF-8."
        )
    return text


def _encoding(data: bytes) -> str:
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if marked is not None:
        return marked
    # Text holds no NUL; in UTF-16 every second byte of ASCII, and so of a header, is one.
    head = data[:_LOOKED_AT]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if even + odd < len(head) // 20 + 1 or len(data) % 2:
        return "utf-8"
    return "utf-16-le" if odd > 4 * even else "utf-16-be" if even > 4 * odd else "utf-8"


def _told(error: UnicodeDecodeError, data: bytes, what: str, path: Path, encoding: str) -> str:
    place, name = error.start, "UTF-8" if encoding.startswith("utf-8") else encoding.upper()
    told = f"{what} must be UTF-8 text, however: {path} is not: its byte {place} (counted from 0)"
    if name != "UTF-8":
        return f"{told} is not {name}, as which its first bytes mark it. Save it with the encoding UTF-8."
    line = data.count(b"\n", 0, place) + 1
    start = data.rfind(b"\n", 0, place) + 1
    near = data[max(start, place - 12) : place + 12].splitlines()[0].decode("cp1252", "replace")
    return (
        f"{told}, in line {line}, is 0x{data[place]:02x}. Programs on Windows often save as cp1252, in which it would "
        f"read {near!r}. Save it with the encoding UTF-8."
    )
