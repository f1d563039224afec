"""Starting the page's server, on this machine only."""

import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from frostbench.app.scratch import scratch_folder
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

    from frostbench.app.server.doors import Doors

    token = secrets.token_urlsafe(32)
    doors = Doors(application(workspace, scratch, token, listening.getsockname()[1]), token)
    config = uvicorn.Config(doors, log_level="warning", ws="none", timeout_graceful_shutdown=CLOSING_SECONDS)
    try:
        uvicorn.Server(config).run([listening])
    except KeyboardInterrupt:
        print("The server has stopped.", flush=True)


def application(workspace: Workspace, scratch: Path, token: str, port: int) -> "Starlette":
    """Build the application: the tabs and the API for programs; it must be served through `Doors`."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from frostbench.app.server.api import Api
    from frostbench.app.workbench.routes import Workbench

    workbench = Workbench(workspace, token, scratch)
    api = Api(workspace, workbench, scratch / "gradio")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        workbench.warm_up()
        print(
            f"Frostbench is running at http://{HOST}:{port}/ (this machine only). Ctrl-C stops the server, but not "
            "running jobs.",
            flush=True,
        )
        yield
        await api.close()
        workbench.close()

    return Starlette(routes=[*workbench.routes(), Mount("/", api)], lifespan=lifespan)
