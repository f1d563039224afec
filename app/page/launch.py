"""Starting the page: on this machine only, without sharing, history or analytics, and for no foreign host name."""

import importlib
import os
import socket
import threading
from importlib import resources
from pathlib import Path
from typing import Any

from app.page.quick_gradio import import_gradio
from app.views.sheet import stylesheet
from app.workspace import Workspace

HOSTS = ("127.0.0.1", "localhost")
MOST_UPLOADED = "50mb"


def prepare(workspace: Workspace) -> None:
    """Set what gradio reads when it is imported."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = str((workspace.scratch / "tmp").resolve())


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
    return stylesheet() + (resources.files("app.page") / "page.css").read_text("utf-8")


def launch(workspace: Workspace, port: int | None) -> None:
    """Build the page and serve it on 127.0.0.1 until the process is stopped.

    Raises:
        ValueError: the port is taken, or the store is a file.
    """
    _check(workspace.store, port)
    prepare(workspace)
    import_gradio()
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from app.page.layout import build

    page = build(workspace)
    page.queue(default_concurrency_limit=4, max_size=64)
    page.launch(
        server_name="127.0.0.1",
        server_port=port,
        theme=theme(),
        css=style(),
        share=False,
        run_history=False,
        footer_links=["api", "settings"],
        max_file_size=MOST_UPLOADED,
        show_error=True,
        enable_monitoring=False,
        ssr_mode=False,
        blocked_paths=[str((workspace.store / folder).resolve()) for folder in ("runs", "jobs")],
        app_kwargs={"middleware": [Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))]},
        quiet=True,
        prevent_thread_lock=True,
    )
    threading.Thread(target=_warm, daemon=True).start()
    print(
        f"Frostbench is at {page.local_url} for this machine only. Ctrl-C ends the page; jobs at work go on.",
        flush=True,
    )
    page.block_thread()


def _check(store: Path, port: int | None) -> None:
    """Refuse what gradio would refuse after seconds, and in its own words."""
    if store.exists() and not store.is_dir():
        raise ValueError(f"a run store is a folder, however: {store} is a file. Give another --store.")
    if port is not None:
        with socket.socket() as tried:
            # A port that a server has just left is free, though the system keeps its last connections in mind.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError as error:
                raise ValueError(
                    f"a port must be free, however: {port} cannot be had ({error.strerror}). Give another --port, or "
                    "none."
                ) from error


def _warm() -> None:
    """Import what the first comparison and the first image need, while a person still looks at the options."""
    importlib.import_module("app.views.compare")
    importlib.import_module("app.trial")
