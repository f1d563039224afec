"""What the page asks its server for beside Gradio: images to try, their previews, and heads to take away."""

import tempfile
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from frostbench.app.uploads import UploadError, Uploads, write_preview
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import StoreError, run_folder
from frostbench.embedcache.decode import DecodeError

IMAGES, HEADS = "/frostbench/images", "/frostbench/heads"
UNKEPT = {"cache-control": "no-store"}


def routes(workspace: Workspace, uploads: Uploads, scratch: Path) -> list[Route]:
    """The addresses below /frostbench; scratch holds heads while they are sent."""

    async def take(request: Request) -> Response:
        return await take_image(request, uploads)

    async def preview(request: Request) -> Response:
        try:
            return FileResponse(uploads.get(request.path_params["key"]).preview, headers=UNKEPT)
        except UploadError as error:
            return PlainTextResponse(str(error), 404)

    def head(request: Request) -> Response:
        return send_head(workspace, request.path_params["key"], scratch)

    return [
        Route(IMAGES, take, methods=["POST"]),
        Route(IMAGES + "/{key}", preview, methods=["GET"]),
        Route(HEADS + "/{key}", head, methods=["GET"]),
    ]


async def take_image(request: Request, uploads: Uploads) -> Response:
    """Take the body as an image, under the name that the address gives; answers with its ID, or why there is none."""
    name = request.query_params.get("name", "")
    try:
        key = await uploads.take(name, request.stream())
    except UploadError as error:
        return JSONResponse({"error": str(error)}, 413)
    except ClientDisconnect:
        return Response(status_code=400)
    except OSError as error:
        told = f"an image must be written to disk, however: it cannot be ({error.strerror}). Is the disk full?"
        return JSONResponse({"error": told}, 507)
    upload = uploads.get(key)
    try:
        await run_in_threadpool(write_preview, upload)
    except (DecodeError, OSError) as error:
        uploads.drop(key)
        reason = error if isinstance(error, DecodeError) else error.strerror
        return JSONResponse({"error": f"{upload.name}: {reason}"}, 422)
    return JSONResponse({"id": key, "name": upload.name})


def send_head(workspace: Workspace, key: str, scratch: Path) -> Response:
    """The bundle of a run as a zip, which is removed once it is sent."""
    try:
        bundle = run_folder(workspace.store, key) / "head"
    except StoreError as error:
        return PlainTextResponse(str(error), 404)
    if not bundle.is_dir():
        return PlainTextResponse("a head must be in the store, however: this run has none there. Train it again.", 404)
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".zip", delete=False) as file:
        packed = Path(file.name)
    try:
        zip_folder(bundle, packed)
    except BaseException:
        packed.unlink(missing_ok=True)
        raise
    sent = BackgroundTask(packed.unlink, missing_ok=True)
    return FileResponse(packed, filename=f"head-{key}.zip", headers=UNKEPT, background=sent)


def zip_folder(folder: Path, out: Path) -> None:
    """Write the files of a bundle's folder as a zip with the one folder `head`; links are left out."""
    with ZipFile(out, "w", ZIP_STORED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                packed.write(path, Path("head") / path.relative_to(folder))
