"""Starting the page's server, by default for this machine only."""

import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from frostbench.app.scratch import scratch_folder
from frostbench.app.server.accounts import Accounts, read_accounts
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


def launch(workspace: Workspace, port: int | None, host: str = HOST, auth: Path | None = None) -> None:
    """Build the page and serve it until the process is stopped.

    Args:
        workspace: what the page may use.
        port: port, or None for the first free one of `PORTS`.
        host: address to listen on; other machines can reach any but a loopback address.
        auth: file of accounts, see `frostbench.app.server.accounts`; needed for a host that others can reach.

    Raises:
        ValueError: the port does not exist or is taken, the store is a file, the accounts cannot be read, or others
            could reach the page without a password.
    """
    accounts = None if auth is None else read_accounts(auth)
    if accounts is None and not is_loopback(host):
        raise ValueError(
            f"A page that other machines can reach must ask for a password, but --host is {host} and there is no "
            "--auth. Name a file of lines name:password with --auth, or use an SSH tunnel to 127.0.0.1."
        )
    if workspace.store.exists() and not workspace.store.is_dir():
        raise ValueError(f"A run store must be a folder, but {workspace.store} is a file. Give another --store.")
    # Treat SIGTERM like Ctrl-C, so that the scratch folder is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with listen(port, host) as listening, scratch_folder(workspace.scratch) as scratch:
        _serve(workspace, listening, scratch, accounts)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("lab.example")
    (True, True, False, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(port: int | None, host: str = HOST) -> socket.socket:
    """Return a socket that listens on a port of an address, by default the first free one of `PORTS`.

    Raises:
        ValueError: the port is not from 0 to 65535 (0 is any free port), the address is not one of this machine, or the
            port, or every port of `PORTS`, is taken.
    """
    if port is not None and not 0 <= port <= LAST_PORT:
        raise ValueError(f"A port must be from 0 (any free one) to {LAST_PORT}, got {port}. Give another --port.")
    reason = ""
    for candidate in PORTS if port is None else (port,):
        listening = socket.socket()
        # Allow a port whose last connections are still in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(WAITING_CONNECTIONS)
            return listening
        except OSError as error:
            listening.close()
            reason = str(error.strerror)
    ports = f"Ports {PORTS[0]} to {PORTS[-1]} are" if port is None else f"Port {port} is"
    raise ValueError(f"{ports} not available ({reason}). Give another --port{'' if port is None else ', or omit it'}.")


def _serve(workspace: Workspace, listening: socket.socket, scratch: Path, accounts: Accounts | None) -> None:
    """Serve the page on a socket until the process is stopped."""
    import uvicorn

    from frostbench.app.server.doors import Doors

    token = secrets.token_urlsafe(32)
    host, port = listening.getsockname()[:2]
    reach = "this machine only" if accounts is None else "asks for name and password"
    address = f"http://{'localhost' if host == '0.0.0.0' else host}:{port}/ ({reach})"
    doors = Doors(application(workspace, scratch, token, address), token, accounts)
    config = uvicorn.Config(doors, log_level="warning", ws="none", timeout_graceful_shutdown=CLOSING_SECONDS)
    try:
        uvicorn.Server(config).run([listening])
    except KeyboardInterrupt:
        print("The server has stopped.", flush=True)


def application(workspace: Workspace, scratch: Path, token: str, address: str) -> "Starlette":
    """Build the application: the tabs and the API for programs; it must be served through `Doors`.

    `address` is what is printed when it is ready.
    """
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
            f"Frostbench is running at {address}. Ctrl-C stops the server, but not running jobs.",
            flush=True,
        )
        yield
        await api.close()
        workbench.close()

    return Starlette(routes=[*workbench.routes(), Mount("/", api)], lifespan=lifespan)
