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

from frostbench.app.workbench.background import Background
from frostbench.app.workbench.bar import job_summary
from frostbench.app.workbench.compare import answers as compare
from frostbench.app.workbench.data import answers as data
from frostbench.app.workbench.documents import TABS, document
from frostbench.app.workbench.images import answers as images
from frostbench.app.workbench.pictures import ADDRESS as PICTURES
from frostbench.app.workbench.pictures import send_picture, send_pictures
from frostbench.app.workbench.runs import answers as runs
from frostbench.app.workbench.train.answers import train_answers
from frostbench.app.workspace import Workspace

TYPES = {".js": "text/javascript", ".css": "text/css"}
BINARY = "application/octet-stream"
MOST_BYTES = 1_000_000
"""Largest body of a request."""
STATIC = resources.files("frostbench.app.workbench") / "static"
FRESH = {"cache-control": "no-cache"}


def answers_of(workspace: Workspace) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the requests of all tabs, by name."""
    background = Background()
    return {
        "jobs": lambda _: job_summary(workspace),
        "pictures": lambda request: send_pictures(request, workspace),
        **compare.answers(workspace),
        **data.answers(workspace, background),
        **images.answers(workspace),
        **runs.answers(workspace, background),
        **train_answers(workspace),
    }


def routes(workspace: Workspace, token: str) -> list[Route]:
    """Return the routes of all tabs."""
    answers = answers_of(workspace)

    def page(request: Request) -> Response:
        tab = next(name for name, address in TABS.items() if address == request.url.path)
        return HTMLResponse(document(tab, token), headers={"cache-control": "no-store"})

    def static(request: Request) -> Response:
        return send_static(request.path_params["folder"], request.path_params["name"])

    def picture(request: Request) -> Response:
        return send_picture(request, workspace)

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
        Route("/frostbench/api/{name}", api, methods=["GET", "POST"]),
    ]


def send_static(folder: str, name: str) -> Response:
    """Send a script or style sheet of the package."""
    file = STATIC / folder / name
    kind = TYPES.get(Path(name).suffix)
    if kind is None or not {folder, name}.isdisjoint({".", ".."}) or "/" in folder + name or not file.is_file():
        return PlainTextResponse("The page has no such file.", 404)
    return Response(file.read_bytes(), media_type=kind, headers=FRESH)
