"""The page's own HTTP routes: uploading images, their previews, and downloading heads."""

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
from frostbench.benchmarks.decisions.exporting import export_run
from frostbench.benchmarks.decisions.kept import kept_decision
from frostbench.benchmarks.runs.store import StoreError, run_folder
from frostbench.embedcache.decode import DecodeError

IMAGES, HEADS = "/frostbench/images", "/frostbench/heads"
UNKEPT = {"cache-control": "no-store"}


def routes(workspace: Workspace, uploads: Uploads, scratch: Path) -> list[Route]:
    """Return the routes below /frostbench; `scratch` is a folder for zip files while they are sent."""

    async def upload(request: Request) -> Response:
        return await take_image(request, uploads)

    async def preview(request: Request) -> Response:
        try:
            return FileResponse(uploads.get(request.path_params["key"]).preview, headers=UNKEPT)
        except UploadError as error:
            return PlainTextResponse(str(error), 404)

    def head(request: Request) -> Response:
        return send_head(workspace, request.path_params["key"], scratch)

    return [
        Route(IMAGES, upload, methods=["POST"]),
        Route(IMAGES + "/{key}", preview, methods=["GET"]),
        Route(HEADS + "/{key}", head, methods=["GET"]),
    ]


async def take_image(request: Request, uploads: Uploads) -> Response:
    """Store the body as an image with the name in the query; respond with its ID and name, or an error."""
    name = request.query_params.get("name", "")
    try:
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
        await run_in_threadpool(write_preview, upload)
    except (DecodeError, OSError) as error:
        uploads.drop(key)
        reason = error if isinstance(error, DecodeError) else error.strerror
        return JSONResponse({"error": f"{upload.name}: {reason}"}, 422)
    return JSONResponse({"id": key, "name": upload.name})


def send_head(workspace: Workspace, key: str, scratch: Path) -> Response:
    """Send the bundle of a run, with the decision kept for it, as a zip file, which is removed afterwards."""
    try:
        bundle = run_folder(workspace.store, key) / "head"
        is_decided = kept_decision(workspace.store, key) is not None
    except StoreError as error:
        return PlainTextResponse(str(error), 404)
    if not bundle.is_dir():
        return PlainTextResponse("The head of this run is not in the store. Train it again.", 404)
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".zip", delete=False) as file:
        packed = Path(file.name)
    try:
        if is_decided:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                export_run(workspace.store, key, Path(folder) / "head", workspace.plugins)
                zip_folder(Path(folder) / "head", packed)
        else:
            zip_folder(bundle, packed)
    except ValueError as error:
        packed.unlink(missing_ok=True)
        return PlainTextResponse(str(error), 409)
    except BaseException:
        packed.unlink(missing_ok=True)
        raise
    sent = BackgroundTask(packed.unlink, missing_ok=True)
    return FileResponse(packed, filename=f"head-{key}.zip", headers=UNKEPT, background=sent)


def zip_folder(folder: Path, out: Path) -> None:
    """Write the files of a bundle, except links, to a zip file with a single folder `head`."""
    with ZipFile(out, "w", ZIP_STORED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                packed.write(path, Path("head") / path.relative_to(folder))
