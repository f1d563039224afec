"""Routes of the workbench: documents, their scripts and styles, and data as JSON."""

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from frostbench.app.workbench.data import differences, job_summary, run_list
from frostbench.app.workbench.documents import TABS, document
from frostbench.app.workspace import Workspace

TYPES = {".js": "text/javascript", ".css": "text/css"}
MOST_BYTES = 1_000_000
"""Largest body of a request."""
FRESH = {"cache-control": "no-cache"}


def routes(workspace: Workspace, token: str) -> list[Route]:
    """Return the routes of all tabs."""
    answers: dict[str, Callable[[Any], Any]] = {
        "runs": lambda _: run_list(workspace),
        "jobs": lambda _: job_summary(workspace),
        "differences": lambda request: differences(request, workspace),
    }

    def page(request: Request) -> Response:
        tab = next(name for name, address in TABS.items() if address == request.url.path)
        return HTMLResponse(document(tab, token), headers={"cache-control": "no-store"})

    def static(request: Request) -> Response:
        return send_static(request.path_params["name"])

    async def api(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in answers:
            return JSONResponse({"error": f"The page has no data called {name!r}."}, 404)
        body = await request.body()
        if len(body) > MOST_BYTES:
            return JSONResponse({"error": f"A request may have at most {MOST_BYTES:,} bytes, got {len(body):,}."}, 413)
        try:
            return JSONResponse(await run_in_threadpool(answers[name], json.loads(body) if body else None))
        except (ValueError, OSError) as error:
            return JSONResponse({"error": str(error)}, 400)

    return [
        *(Route(address, page) for address in TABS.values()),
        Route("/frostbench/static/{name}", static),
        Route("/frostbench/api/{name}", api, methods=["GET", "POST"]),
    ]


def send_static(name: str) -> Response:
    """Send a script or style sheet of the package."""
    file = resources.files("frostbench.app.workbench") / "static" / name
    kind = TYPES.get(f".{name.rpartition('.')[2]}")
    if "/" in name or kind is None or not file.is_file():
        return PlainTextResponse("The page has no such file.", 404)
    return Response(file.read_bytes(), media_type=kind, headers=FRESH)
