"""The API for programs, served by Gradio: `gradio_client.Client(URL)` lists and calls its endpoints.

Gradio is imported on the first call, which takes a few seconds and is not needed for the page.
"""

import asyncio
import functools
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from frostbench.app.server.quick_gradio import import_gradio
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    from frostbench.app.workbench.routes import Workbench


class Api:
    """ASGI application that builds Gradio's when it is first called.

    Args:
        workspace: workspace of the page.
        workbench: routes of the page, whose functions the endpoints call.
        temporary: folder for Gradio's temporary files.
    """

    def __init__(self, workspace: Workspace, workbench: "Workbench", temporary: Path) -> None:
        self._workspace = workspace
        self._workbench = workbench
        self._temporary = temporary
        self._app: ASGIApp | None = None
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        async with self._lock:
            if self._app is None:
                built = await run_in_threadpool(self._build)
                await self._stack.enter_async_context(built.router.lifespan_context(built))
                self._app = built
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """End Gradio's queue."""
        await self._stack.aclose()

    def _build(self) -> Any:
        """Build Gradio's application. It reads the two variables on import."""
        from starlette.applications import Starlette

        from frostbench.app.server.calls import Calls

        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
        os.environ["GRADIO_TEMP_DIR"] = str(self._temporary.resolve())
        import_gradio()
        import gradio as gr

        with gr.Blocks(title="Frostbench", analytics_enabled=False) as blocks:
            for function in Calls(self._workspace, self._workbench.handlers.answers).all():
                gr.events.api(_told(function), api_name=function.__name__)
        outer: Any = Starlette()
        return gr.mount_gradio_app(
            outer, blocks, "/", max_file_size=0, show_error=True, enable_monitoring=False, ssr_mode=False,
            mcp_server=False, run_history=False,
        )  # fmt: skip


def with_options(value: Any) -> Any:
    """Return a JSON value whose keys `path`, which name options, are called `option`.

    Gradio's client takes every object with a key `path` for a file to download.

    >>> with_options({"changes": [{"path": "train.ema", "new": "0.9"}]})
    {'changes': [{'option': 'train.ema', 'new': '0.9'}]}
    """
    if isinstance(value, dict):
        return {"option" if key == "path" else key: with_options(inner) for key, inner in value.items()}
    return [with_options(inner) for inner in value] if isinstance(value, list | tuple) else value


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose ValueErrors and OSErrors reach the caller as they are."""
    import gradio as gr

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return with_options(function(*arguments, **named))
        except (ValueError, OSError) as error:
            raise gr.Error(str(error), print_exception=False) from error

    return called
