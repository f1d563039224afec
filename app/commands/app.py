"""`frostbench app`."""

from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.common import Device, Plugins


def app(
    caches: Annotated[
        list[Path] | None,
        typer.Argument(help="Caches to list first. Caches below the current folder are found automatically."),
    ] = None,
    store: Annotated[Path, typer.Option(help="Folder of the run store, which also holds the jobs.")] = Path("results"),
    port: Annotated[int | None, typer.Option(help="Port. [default: the first free port from 7860]")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other machines can reach needs --auth.")
    ] = "127.0.0.1",
    auth: Annotated[
        Path | None, typer.Option(help="File of lines name:password; the page then asks everyone for one of them.")
    ] = None,
    slots: Annotated[int, typer.Option(min=1, max=64, help="Number of jobs that may train at the same time.")] = 1,
    device: Device = "cpu",
    plugins: Plugins = None,
) -> None:
    """Serve the page on this machine: data, training, runs, comparison, images, prediction and export."""
    from frostbench.app.server.launch import launch
    from frostbench.app.workspace import Workspace

    if caches:
        from frostbench.embedcache.storage.state import read_state

        for cache in caches:
            read_state(cache)
    launch(Workspace(Path(), tuple(caches or ()), store, device, slots, tuple(plugins or ())), port, host, auth)
