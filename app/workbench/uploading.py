"""Receives images, one by one or in a zip file, for the tab Predict."""

import tempfile
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from frostbench.app.uploads import MIB, UploadError, Uploads
from frostbench.embedcache.decode import DecodeError, decode_file
from frostbench.embedcache.items import IMAGE_SUFFIXES

MOST_IN_ZIP = 5000
"""Largest number of images in a zip file."""


async def take_images(request: Request, uploads: Uploads, scratch: Path) -> Response:
    """Store the body, an image or a zip file of images; respond with `images` (id and name each) and `notes`."""
    name = request.query_params.get("name", "")
    try:
        if name.lower().endswith(".zip"):
            return JSONResponse(await _take_zip(request.stream(), uploads, scratch))
        key = await uploads.take(name, request.stream())
    except UploadError as error:
        return JSONResponse({"error": str(error)}, 413)
    except ClientDisconnect:
        return Response(status_code=400)
    except OSError as error:
        message = f"The image could not be written to disk ({error.strerror}). Is the disk full?"
        return JSONResponse({"error": message}, 507)
    upload = uploads.get(key)
    try:
        await run_in_threadpool(decode_file, upload.path)
    except (DecodeError, OSError) as error:
        uploads.drop(key)
        reason = error if isinstance(error, DecodeError) else error.strerror
        return JSONResponse({"error": f"{upload.name}: {reason}"}, 422)
    return JSONResponse({"images": [{"id": key, "name": upload.name}], "notes": []})


async def _take_zip(chunks: AsyncIterator[bytes], uploads: Uploads, scratch: Path) -> dict[str, Any]:
    scratch.mkdir(parents=True, exist_ok=True)
    size, most = 0, uploads.most_total
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".zip") as file:
        async for chunk in chunks:
            size += len(chunk)
            if size > most:
                raise UploadError(
                    f"A zip file may have at most {most // MIB} MiB, but this one is larger. Unpack it below the "
                    "folder of the page, and name that folder."
                )
            file.write(chunk)
        file.flush()
        return await run_in_threadpool(unpack, Path(file.name), uploads)


def unpack(packed: Path, uploads: Uploads) -> dict[str, Any]:
    """Store the images of a zip file; return `images` and `notes` on files that were skipped.

    Raises:
        UploadError: it is not a readable zip file, holds no or too many images, or they take too much room.
    """
    try:
        with ZipFile(packed) as opened:
            wanted = [one for one in opened.infolist() if _is_image(one)]
            _check(wanted, uploads)
            kept = [{"id": uploads.keep(one.filename, opened.read(one)), "name": one.filename} for one in wanted]
            others = Counter(_kind(one) for one in opened.infolist() if not one.is_dir() and not _is_image(one))
    # An encrypted member raises a RuntimeError, an unknown compression a NotImplementedError.
    except (BadZipFile, RuntimeError, NotImplementedError, EOFError, zlib.error) as error:
        raise UploadError(f"The zip file cannot be read: {error}. Pack it again without a password.") from error
    skipped = ", ".join(f"{number} {kind}" for kind, number in others.most_common(3))
    return {"images": kept, "notes": [f"Files that are no images were skipped: {skipped}."] if others else []}


def _check(wanted: list[ZipInfo], uploads: Uploads) -> None:
    """Check number and unpacked sizes, as the zip file states them, which `ZipFile.read` enforces."""
    if not 1 <= len(wanted) <= MOST_IN_ZIP:
        raise UploadError(
            f"A zip file must hold 1 to {MOST_IN_ZIP:,} images, got {len(wanted):,}. "
            + ("Unpack it below the folder of the page, and name that folder." if wanted else "Pack images.")
        )
    large = [one.filename for one in wanted if one.file_size > uploads.most_bytes]
    total = sum(one.file_size for one in wanted)
    room = uploads.most_total - uploads.most_bytes
    if large or total > room:
        what = f"{large[0]!r} is larger" if large else f"together they have {total // MIB}"
        raise UploadError(
            f"Images in a zip file may have at most {uploads.most_bytes // MIB} MiB each and {room // MIB} MiB "
            f"together, but {what}. Unpack it below the folder of the page, and name that folder."
        )


def _is_image(one: ZipInfo) -> bool:
    path = PurePosixPath(one.filename)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not one.is_dir() and not hidden and path.suffix.lower() in IMAGE_SUFFIXES


def _kind(one: ZipInfo) -> str:
    return PurePosixPath(one.filename).suffix.lower() or "without a suffix"
