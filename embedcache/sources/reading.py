"""The bytes of an item's image, whether it is a file of its own or lies in one with many others."""

from frostbench.embedcache.decode import DecodeError, read_image_file
from frostbench.embedcache.items import Item
from frostbench.embedcache.sources.members import read_member


def read_item(item: Item) -> bytes:
    """The encoded image of an item; safe in many threads.

    Raises:
        DecodeError: its file is gone or cannot be read, or does not have its row, or that is empty.
    """
    if item.path is None:
        raise DecodeError("no file is stated for it")
    if item.member is None or item.column is None:
        return read_image_file(item.path)
    return read_member(item.path, item.column, item.member)
