"""Routes of the workbench: documents, their scripts and styles, and data as JSON."""

import importlib
import json
import threading
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from frostbench.app.workbench.addresses import ANSWERS, FILES, FIRST, PHOTOS, PICTURES, PREDICTED_PICTURES, UPLOADS
from frostbench.app.workbench.documents import TABS, document
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    from frostbench.app.workbench.handlers import Handlers

TYPES = {".js": "text/javascript", ".css": "text/css"}
BINARY = "application/octet-stream"
MOST_BYTES = 1_000_000
"""Largest body of a request."""
STATIC = resources.files("frostbench.app.workbench") / "static"
FRESH = {"cache-control": "no-cache"}


class Workbench:
    """The routes of all tabs.

    Documents, scripts and styles are sent at once; what computes answers is imported on the first request for data.

    Args:
        workspace: workspace of the page.
        token: token of the server, which requests that change something must carry.
        scratch: folder for uploads, and for files while they are sent; default: that of the workspace.
    """

    def __init__(self, workspace: Workspace, token: str, scratch: Path | None = None) -> None:
        self._workspace = workspace
        self._token = token
        self._scratch = scratch or workspace.scratch
        self._made: Handlers | None = None
        self._lock = threading.Lock()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/", lambda _: RedirectResponse(FIRST, 302)),
            *(Route(address, self._page) for address in TABS.values()),
            Route("/frostbench/static/{folder}/{name}", send_static),
            Route("/frostbench/token", lambda _: PlainTextResponse(self._token, headers={"cache-control": "no-store"})),
            Route(PICTURES, lambda request: self.handlers.picture(request)),
            Route(PREDICTED_PICTURES, lambda request: self.handlers.predicted_picture(request)),
            Route(FILES + "/{name}", lambda request: self.handlers.file(request)),
            Route(UPLOADS, self._upload, methods=["POST"]),
            Route(PHOTOS, self._keep_photo, methods=["POST"]),
            Route(ANSWERS + "/{name}", self._answer, methods=["GET", "POST"]),
        ]

    @property
    def handlers(self) -> "Handlers":
        """What answers requests; the first use takes seconds."""
        with self._lock:
            if self._made is None:
                module: Any = importlib.import_module("frostbench.app.workbench.handlers")
                self._made = module.handlers_of(self._workspace, self._scratch)
            return self._made

    def warm_up(self) -> None:
        """Import in the background what answers requests."""
        threading.Thread(target=lambda: self.handlers, daemon=True).start()

    def close(self) -> None:
        """End what runs in the background."""
        if self._made is not None:
            self._made.close()

    def _page(self, request: Request) -> Response:
        tab = next(name for name, address in TABS.items() if address == request.url.path)
        return HTMLResponse(document(tab, self._token), headers={"cache-control": "no-store"})

    async def _upload(self, request: Request) -> Response:
        handlers = await run_in_threadpool(lambda: self.handlers)
        return await handlers.upload(request)

    async def _keep_photo(self, request: Request) -> Response:
        handlers = await run_in_threadpool(lambda: self.handlers)
        return await handlers.keep_photo(request)

    async def _answer(self, request: Request) -> Response:
        name, answers = request.path_params["name"], await run_in_threadpool(lambda: self.handlers.answers)
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


def routes(workspace: Workspace, token: str, scratch: Path | None = None) -> list[Route]:
    """Return the routes of all tabs; see `Workbench`."""
    return Workbench(workspace, token, scratch).routes()


def send_static(request: Request) -> Response:
    """Send a script or style sheet of the package."""
    folder, name = request.path_params["folder"], request.path_params["name"]
    file = STATIC / folder / name
    kind = TYPES.get(Path(name).suffix)
    if kind is None or not {folder, name}.isdisjoint({".", ".."}) or "/" in folder + name or not file.is_file():
        return PlainTextResponse("The page has no such file.", 404)
    return Response(file.read_bytes(), media_type=kind, headers=FRESH)
