"""Reading the bytes of an item's image, from its own file or from a file with many images."""

from frostbench.embedcache.decode import DecodeError, read_image_file
from frostbench.embedcache.items import Item
from frostbench.embedcache.sources.members import read_member


def read_item(item: Item) -> bytes:
    """Read the encoded image of an item; thread-safe.

    Raises:
        DecodeError: its file is not stated, missing or unreadable, lacks its row, or the row is empty.
    """
    if item.path is None:
        raise DecodeError("no file is stated for this image")
    if item.member is None or item.column is None:
        return read_image_file(item.path)
    return read_member(item.path, item.column, item.member)
