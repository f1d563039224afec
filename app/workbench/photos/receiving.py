"""Receives photos that are kept for good, one by one or in a zip file."""

import tempfile
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from frostbench.app.uploads import MIB
from frostbench.app.workbench.photos.keeping import ADVICE, PhotoSets
from frostbench.app.workbench.photos.names import PhotoError


async def take_photo(request: Request, sets: PhotoSets, scratch: Path) -> Response:
    """Keep the body, a file or a zip file of images; respond with the number `kept` and `notes`.

    The query states `set`, the set's folder, and `name`, the path of the file in it.
    """
    key, name = request.query_params.get("set", ""), request.query_params.get("name", "")
    try:
        if name.lower().endswith(".zip"):
            return await _take_zip(request, key, sets, scratch)
        await sets.keep(key, name, request.stream())
    except PhotoError as error:
        return JSONResponse({"error": str(error)}, 413)
    except ClientDisconnect:
        return Response(status_code=400)
    except OSError as error:
        message = f"The photo could not be written to the disk ({error.strerror}). Is it full?"
        return JSONResponse({"error": message}, 507)
    return JSONResponse({"kept": 1, "notes": []})


async def _take_zip(request: Request, key: str, sets: PhotoSets, scratch: Path) -> Response:
    scratch.mkdir(parents=True, exist_ok=True)
    size = 0
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".zip") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > sets.most_total:
                raise PhotoError(f"A zip file may have at most {sets.most_total // MIB:,} MiB. {ADVICE}")
            file.write(chunk)
        file.flush()
        return JSONResponse(await run_in_threadpool(sets.keep_zip, key, Path(file.name)))
