"""Reading and decoding of images in threads, ahead of the forward pass and in listing order."""

import hashlib
import os
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from frostbench.embedcache.decode import DecodeError, ElsewhereError, decode_image
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, Prepared
from frostbench.embedcache.items import Item
from frostbench.embedcache.remarks import NOTHING, Remarks
from frostbench.embedcache.sources.reading import read_item


@dataclass(frozen=True)
class Decoded:
    """Image prepared for the backbones, with the SHA-256 of its file and remarks."""

    item: Item
    image: Prepared
    sha256: bytes
    remarks: Remarks = NOTHING


@dataclass(frozen=True)
class Failed:
    """Item for the quarantine; its digest is None if the file was not read or is to be retried by the next run."""

    item: Item
    reason: str
    sha256: bytes | None


Outcome = Decoded | Failed


def decode_item(item: Item, backbone: BackboneGroup, pixel_limit: int) -> Outcome:
    """Read, hash, decode and prepare one item; a problem with its file is returned as `Failed`."""
    background = backbone.background
    if item.path is None or background is None:
        raise ValueError(
            f"items must have files, and recipes a background, to be embedded, but {item.id!r} has path {item.path} "
            f"and the recipe has background {background}. Imported vectors cannot be embedded again."
        )
    digest = None
    try:
        data = read_item(item)
        digest = hashlib.sha256(data).digest()
        if backbone.alteration is not None:
            backbone.alteration.check(item.id, digest)
        image, remarks = decode_image(
            data, background=background, pixel_limit=pixel_limit, intensity_range=backbone.intensity_range
        )
        if backbone.alteration is not None:
            image = backbone.alteration(item.id, image)
        return Decoded(item, backbone.prepare(image), digest, remarks)
    except ElsewhereError as error:
        # Without a digest the next run retries the item: the file at fault is a different one.
        return Failed(item, str(error), None)
    except DecodeError as error:
        return Failed(item, str(error), digest)
    except MemoryError:
        # Without a digest the next run retries the item, possibly with more memory or a lower pixel limit.
        return Failed(item, "does not fit into memory when it is decoded", None)


def content_digest(item: Item) -> bytes | None:
    """Return the current SHA-256 of an item's file, or None if it cannot be read."""
    if item.path is None:
        return None
    try:
        return hashlib.sha256(read_item(item)).digest()
    except DecodeError:
        return None


def decode_ahead(
    items: Iterable[Item], backbone: BackboneGroup, pixel_limit: int, workers: int, ahead: int
) -> Generator[Outcome, None, None]:
    """Yield the outcome of each item in order, with at most `ahead` of them in memory.

    Threads suffice, because Pillow releases the GIL while it decodes and resizes.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    pending: deque[Future[Outcome]] = deque()
    try:
        for item in items:
            if len(pending) >= ahead:
                yield pending.popleft().result()
            pending.append(pool.submit(decode_item, item, backbone, pixel_limit))
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """Return the number of CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
