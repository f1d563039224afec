"""Starting the page: on this machine only, without sharing, history or analytics, and for nobody but its own page."""

import importlib
import os
import secrets
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frostbench.app.page.quick_gradio import import_gradio
from frostbench.app.scratch import scratch_folder
from frostbench.app.uploads import Uploads
from frostbench.app.views.sheet import stylesheet
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOST = "127.0.0.1"
PORTS = range(7860, 7960)
"""Tried one after the other where no port is asked for."""
WAITING_CONNECTIONS = 100
CLOSING_SECONDS = 2
"""How long answers that are on their way may take when the server is stopped."""


def prepare(scratch: Path) -> None:
    """Set what gradio reads when it is imported; it keeps its files in a folder of the server's own."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = str((scratch / "gradio").resolve())


def theme() -> Any:
    """System fonts, so that nothing is loaded from elsewhere, and help text of 4.5:1 or more in light and dark."""
    import gradio as gr

    base = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="zinc",
        spacing_size="sm",
        font=["system-ui", "Segoe UI", "Arial", "sans-serif"],
        font_mono=["ui-monospace", "Consolas", "monospace"],
    )
    return base.set(
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
    )


def style() -> str:
    """The page's own style sheet, after that of the comparison."""
    return stylesheet() + (resources.files("frostbench.app.page") / "page.css").read_text("utf-8")


def launch(workspace: Workspace, port: int | None) -> None:
    """Build the page and serve it on 127.0.0.1 until the process is stopped.

    Raises:
        ValueError: the port is taken, or the store is a file.
    """
    if workspace.store.exists() and not workspace.store.is_dir():
        raise ValueError(f"a run store is a folder, however: {workspace.store} is a file. Give another --store.")
    # Asked to end as by Ctrl-C: what the server kept is removed then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with listen(port) as listening, scratch_folder(workspace.scratch) as scratch:
        prepare(scratch)
        import_gradio()
        _serve(workspace, listening, scratch)


def listen(port: int | None) -> socket.socket:
    """A socket that listens on a port of 127.0.0.1, or on the first free one of `PORTS`.

    Raises:
        ValueError: the port is taken, or all of them are.
    """
    said = ""
    for each in PORTS if port is None else (port,):
        found = socket.socket()
        # A port that a server has just left is free, though the system keeps its last connections in mind.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((HOST, each))
            found.listen(WAITING_CONNECTIONS)
            return found
        except OSError as error:
            found.close()
            said = str(error.strerror)
    asked = f"{PORTS[0]} to {PORTS[-1]}" if port is None else port
    raise ValueError(f"a port must be free, however: {asked} cannot be had ({said}). Give another --port, or none.")


def _serve(workspace: Workspace, listening: socket.socket, scratch: Path) -> None:
    """Answer on the socket until the process is asked to stop."""
    import uvicorn

    from frostbench.app.page.doors import Doors

    token = secrets.token_urlsafe(32)
    doors = Doors(application(workspace, scratch, token, listening.getsockname()[1]), token)
    config = uvicorn.Config(doors, log_level="warning", ws="none", timeout_graceful_shutdown=CLOSING_SECONDS)
    try:
        uvicorn.Server(config).run([listening])
    except KeyboardInterrupt:
        print("The page has ended.", flush=True)


def application(workspace: Workspace, scratch: Path, token: str, port: int) -> "Starlette":
    """The page with all that it asks its server for; it is served through `frostbench.app.page.doors` alone."""
    import gradio as gr
    from starlette.applications import Starlette

    from frostbench.app.page.doors import script_with
    from frostbench.app.page.layout import build
    from frostbench.app.page.routes import routes

    @asynccontextmanager
    async def told(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=_warm, daemon=True).start()
        print(
            f"Frostbench is at http://{HOST}:{port}/ for this machine only. Ctrl-C ends the page; jobs at work go on.",
            flush=True,
        )
        yield

    uploads = Uploads(scratch / "uploads")
    page = build(workspace, uploads)
    around: Any = Starlette(routes=routes(workspace, uploads, scratch / "heads"), lifespan=told)
    return gr.mount_gradio_app(
        around,
        page,
        "/",
        theme=theme(),
        css=style(),
        head=script_with(token),
        run_history=False,
        footer_links=["settings"],
        max_file_size=0,
        show_error=True,
        enable_monitoring=False,
        ssr_mode=False,
        mcp_server=False,
    )


def _warm() -> None:
    """Import what the first comparison and the first image need, while a person still looks at the options."""
    importlib.import_module("frostbench.app.views.compare")
    importlib.import_module("frostbench.app.trial")
