"""Reading of text files in UTF-8, or in UTF-16 and UTF-32 as saved by spreadsheets."""

import codecs
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLED_BYTES = 4096


def read_text(path: Path, what: str) -> str:
    """Read a text file.

    Args:
        path: path of the file.
        what: name of the kind of file for messages, such as "a manifest".

    Raises:
        ValueError: the file is not text in one of the encodings above.
        OSError: the file cannot be read.
    """
    return decode_text(path.read_bytes(), what, path)


def decode_text(data: bytes, what: str, path: Path) -> str:
    """Decode bytes by their byte order mark, or as UTF-16 if they have its pattern of zeros, or as UTF-8.

    >>> decode_text("größe".encode("utf-16"), "a list", Path("x.csv"))
    'größe'

    Raises:
        ValueError: the bytes are not text in that encoding; the message states the position.
    """
    encoding = _encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(_message(error, data, what, path, encoding)) from error
    if "\0" in text:
        raise ValueError(
            f"{what} must be a text file, but {path} holds NUL characters, the first at character "
            f"{text.index(chr(0))}. Check that it is the right file, or save it with the encoding UTF-8."
        )
    return text


def _encoding(data: bytes) -> str:
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if marked is not None:
        return marked
    # Text holds no NUL, but in UTF-16 every second byte of ASCII, and so of a header, is zero.
    head = data[:_SAMPLED_BYTES]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if even + odd < len(head) // 20 + 1 or len(data) % 2:
        return "utf-8"
    return "utf-16-le" if odd > 4 * even else "utf-16-be" if even > 4 * odd else "utf-8"


def _message(error: UnicodeDecodeError, data: bytes, what: str, path: Path, encoding: str) -> str:
    position, name = error.start, "UTF-8" if encoding.startswith("utf-8") else encoding.upper()
    message = f"{what} must be UTF-8 text, but in {path} byte {position} (counted from 0)"
    if name != "UTF-8":
        return f"{message} is not valid {name}, which its first bytes indicate. Save it with the encoding UTF-8."
    line = data.count(b"\n", 0, position) + 1
    start = data.rfind(b"\n", 0, position) + 1
    near = data[max(start, position - 12) : position + 12].splitlines()[0].decode("cp1252", "replace")
    return (
        f"{message}, in line {line}, is 0x{data[position]:02x}. Programs on Windows often save as cp1252, in which the "
        f"text reads {near!r}. Save it with the encoding UTF-8."
    )
