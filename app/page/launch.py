"""Starting the page's server: on this machine only, without sharing, history or analytics."""

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
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOST = "127.0.0.1"
PORTS = range(7860, 7960)
"""Ports to try in order if none is given."""
LAST_PORT = 65535
WAITING_CONNECTIONS = 100
CLOSING_SECONDS = 2
"""Time for pending responses when the server is stopped."""


def prepare(scratch: Path) -> None:
    """Set the environment variables that gradio reads on import; its files go to the server's scratch folder."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = str((scratch / "gradio").resolve())


def theme() -> Any:
    """Return a theme with system fonts, so that none are downloaded, and a text contrast of at least 4.5:1."""
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
    """Return the style sheets of the comparison and of the page."""
    sheets = (("frostbench.app.views", "views.css"), ("frostbench.app.page", "page.css"))
    return "".join((resources.files(package) / name).read_text("utf-8") for package, name in sheets)


def launch(workspace: Workspace, port: int | None) -> None:
    """Build the page and serve it on 127.0.0.1 until the process is stopped.

    Raises:
        ValueError: the port does not exist or is taken, or the store is a file.
    """
    if workspace.store.exists() and not workspace.store.is_dir():
        raise ValueError(f"A run store must be a folder, but {workspace.store} is a file. Give another --store.")
    # Treat SIGTERM like Ctrl-C, so that the scratch folder is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with listen(port) as listening, scratch_folder(workspace.scratch) as scratch:
        prepare(scratch)
        import_gradio()
        _serve(workspace, listening, scratch)


def listen(port: int | None) -> socket.socket:
    """Return a socket that listens on a port of 127.0.0.1, by default the first free one of `PORTS`.

    Raises:
        ValueError: the port is not from 0 to 65535 (0 is any free port), or the port, or every port of `PORTS`, is
            taken.
    """
    if port is not None and not 0 <= port <= LAST_PORT:
        raise ValueError(f"A port must be from 0 (any free one) to {LAST_PORT}, got {port}. Give another --port.")
    reason = ""
    for candidate in PORTS if port is None else (port,):
        listening = socket.socket()
        # Allow a port whose last connections are still in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, candidate))
            listening.listen(WAITING_CONNECTIONS)
            return listening
        except OSError as error:
            listening.close()
            reason = str(error.strerror)
    ports = f"Ports {PORTS[0]} to {PORTS[-1]} are" if port is None else f"Port {port} is"
    raise ValueError(f"{ports} not available ({reason}). Give another --port{'' if port is None else ', or omit it'}.")


def _serve(workspace: Workspace, listening: socket.socket, scratch: Path) -> None:
    """Serve the page on a socket until the process is stopped."""
    import uvicorn

    from frostbench.app.page.doors import Doors

    token = secrets.token_urlsafe(32)
    doors = Doors(application(workspace, scratch, token, listening.getsockname()[1]), token)
    config = uvicorn.Config(doors, log_level="warning", ws="none", timeout_graceful_shutdown=CLOSING_SECONDS)
    try:
        uvicorn.Server(config).run([listening])
    except KeyboardInterrupt:
        print("The server has stopped.", flush=True)


def application(workspace: Workspace, scratch: Path, token: str, port: int) -> "Starlette":
    """Build the page and its routes; it must be served through `frostbench.app.page.doors`."""
    import gradio as gr
    from starlette.applications import Starlette

    from frostbench.app.page.doors import script_with
    from frostbench.app.page.layout import build
    from frostbench.app.page.routes import routes
    from frostbench.app.workbench.routes import routes as workbench_routes

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=_import_later_modules, daemon=True).start()
        print(
            f"Frostbench is running at http://{HOST}:{port}/ (this machine only). Ctrl-C stops the server, but not "
            "running jobs.",
            flush=True,
        )
        yield

    uploads = Uploads(scratch / "uploads")
    page = build(workspace, uploads)
    own = [*workbench_routes(workspace, token), *routes(workspace, uploads, scratch / "heads")]
    outer: Any = Starlette(routes=own, lifespan=lifespan)
    return gr.mount_gradio_app(
        outer,
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


def _import_later_modules() -> None:
    """Import, in the background, the modules that the first comparison and the first image will need."""
    importlib.import_module("frostbench.app.views.compare")
    importlib.import_module("frostbench.app.trial")
