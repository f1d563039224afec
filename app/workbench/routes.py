"""Routes of the workbench: documents, their scripts and styles, and data as JSON."""

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from frostbench.app.uploads import Uploads
from frostbench.app.workbench import uploading
from frostbench.app.workbench.bar import job_summary
from frostbench.app.workbench.compare import answers as compare
from frostbench.app.workbench.data import answers as data
from frostbench.app.workbench.documents import TABS, document
from frostbench.app.workbench.export import answers as export
from frostbench.app.workbench.images import answers as images
from frostbench.app.workbench.pictures import ADDRESS as PICTURES
from frostbench.app.workbench.pictures import send_picture, send_pictures
from frostbench.app.workbench.predict import answers as predict
from frostbench.app.workbench.predict.sets import PredictionSets
from frostbench.app.workbench.runs.answers import differences, run_list
from frostbench.app.workbench.train.answers import train_answers
from frostbench.app.workspace import Workspace

TYPES = {".js": "text/javascript", ".css": "text/css"}
BINARY = "application/octet-stream"
MOST_BYTES = 1_000_000
"""Largest body of a request."""
STATIC = resources.files("frostbench.app.workbench") / "static"
FRESH = {"cache-control": "no-cache"}


def answers_of(
    workspace: Workspace, sets: PredictionSets, uploads: Uploads, files: Path
) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the requests of all tabs, by name; files to download are made in `files`."""
    return {
        "runs": lambda _: run_list(workspace),
        "jobs": lambda _: job_summary(workspace),
        "differences": lambda request: differences(request, workspace),
        "pictures": lambda request: send_pictures(request, workspace),
        **compare.answers(workspace),
        **data.answers(workspace),
        **export.answers(workspace, sets.process, files),
        **images.answers(workspace),
        **predict.answers(workspace, sets, uploads),
        **train_answers(workspace),
    }


def routes(workspace: Workspace, token: str, scratch: Path | None = None) -> list[Route]:
    """Return the routes of all tabs.

    Args:
        workspace: workspace of the page.
        token: token of the server, which requests that change something must carry.
        scratch: folder for uploads, and for downloads while they are sent; default: that of the workspace.
    """
    scratch = scratch or workspace.scratch
    sets, uploads = PredictionSets(workspace.device, workspace.plugins), Uploads(scratch / "uploads")
    files = scratch / "files"
    answers = answers_of(workspace, sets, uploads, files)

    def page(request: Request) -> Response:
        tab = next(name for name, address in TABS.items() if address == request.url.path)
        return HTMLResponse(document(tab, token), headers={"cache-control": "no-store"})

    def static(request: Request) -> Response:
        return send_static(request.path_params["folder"], request.path_params["name"])

    def picture(request: Request) -> Response:
        return send_picture(request, workspace)

    def predicted_picture(request: Request) -> Response:
        return predict.send_predicted_picture(request, sets)

    def file(request: Request) -> Response:
        return export.send_file(request, files)

    async def upload(request: Request) -> Response:
        return await uploading.take_images(request, uploads, scratch)

    async def api(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in answers:
            return JSONResponse({"error": f"The page has no data called {name!r}."}, 404)
        body = await request.body()
        if len(body) > MOST_BYTES:
            return JSONResponse({"error": f"A request may have at most {MOST_BYTES:,} bytes, got {len(body):,}."}, 413)
        try:
            answer = await run_in_threadpool(answers[name], json.loads(body) if body else None)
        except (ValueError, OSError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return Response(answer, media_type=BINARY) if isinstance(answer, bytes) else JSONResponse(answer)

    return [
        *(Route(address, page) for address in TABS.values()),
        Route("/frostbench/static/{folder}/{name}", static),
        Route(PICTURES, picture),
        Route(predict.PICTURES, predicted_picture),
        Route(export.FILES + "/{name}", file),
        Route(uploading.ADDRESS, upload, methods=["POST"]),
        Route("/frostbench/api/{name}", api, methods=["GET", "POST"]),
    ]


def send_static(folder: str, name: str) -> Response:
    """Send a script or style sheet of the package."""
    file = STATIC / folder / name
    kind = TYPES.get(Path(name).suffix)
    if kind is None or not {folder, name}.isdisjoint({".", ".."}) or "/" in folder + name or not file.is_file():
        return PlainTextResponse("The page has no such file.", 404)
    return Response(file.read_bytes(), media_type=kind, headers=FRESH)
