"""Pictures of a cache's images for all tabs."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from struct import pack
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.tables import whole_table_of, written
from frostbench.app.workspace import Workspace
from frostbench.embedcache.decode import DecodeError
from frostbench.embedcache.items import Item
from frostbench.embedcache.storage.listing import read_items
from frostbench.embedcache.thumbnails import SIZES, thumbnail

MOST_PICTURES = 100
"""Largest number of pictures in one request."""


def send_picture(request: Request, workspace: Workspace) -> Response:
    """Send a picture; the browser asks again whether its copy is still right, which costs no data."""
    asked = request.query_params
    size_text = asked.get("size", "")
    try:
        if not size_text.isdecimal():
            raise RequestError(f"A size must be a number, got {size_text!r}.")
        size = int(size_text)
        folder = workspace.cache(asked.get("cache"))
        item, content = images_of(folder)[asked.get("id", "")]
        tag = f'"{content[:16]}-{size}"'
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(thumbnail(folder, item, content, size), media_type="image/webp", headers=headers)
    except KeyError as error:
        return PlainTextResponse(f"The cache has no image {error}. Reload the page.", 404)
    except DecodeError as error:
        return PlainTextResponse(f"There is no picture of {asked.get('id')}: {error}.", 404)
    except (ValueError, OSError) as error:
        return PlainTextResponse(str(error), 400)


def send_pictures(request: Any, workspace: Workspace) -> bytes:
    """Return several pictures: their lengths as little-endian uint32, 0 where there is none, and then the pictures.

    Raises:
        RequestError: the request has another form.
        ValueError: the cache is none of the page's, or cannot be read.
    """
    wanted = f"Pictures need a cache, a size and 1 to {MOST_PICTURES} ids, as the page sends them."
    if not isinstance(request, Mapping) or not isinstance(request.get("ids"), list):
        raise RequestError(wanted)
    ids, size = request["ids"], request.get("size")
    if not 1 <= len(ids) <= MOST_PICTURES or not all(isinstance(one, str) for one in ids) or size not in SIZES:
        raise RequestError(wanted)
    folder = workspace.cache(request.get("cache"))
    found = [_picture(folder, one, size) for one in ids]
    return b"".join([pack(f"<{len(found)}I", *map(len, found)), *found])


def _picture(folder: Path, image: str, size: int) -> bytes:
    """Return a picture; empty if there is none, for which `send_picture` gives the reason."""
    try:
        return thumbnail(folder, *images_of(folder)[image], size)
    except (KeyError, DecodeError):
        return b""


def images_of(folder: Path) -> dict[str, tuple[Item, str]]:
    """Return each embedded image of a cache by id, with the SHA-256 of its file."""
    return _images(folder, written(folder))


@lru_cache(maxsize=4)
def _images(folder: Path, _written: int) -> dict[str, tuple[Item, str]]:
    table = whole_table_of(folder)
    content = dict(zip(table.ids.tolist(), table.content.tolist(), strict=True))
    return {item.id: (item, content[item.id]) for item in read_items(folder) if item.id in content}
