"""What every part of the page needs."""

import json
from collections.abc import Mapping
from typing import Any

import gradio as gr

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
"""How the page's own events run: no veil over what is being read, and one short request each.

A browser opens six connections to a server for all of its tabs. So no event waits in Gradio's queue, whose answers come
through a connection that stays open, and the page has no `gr.State`, for which Gradio keeps one open for each tab. What
goes wrong in such an event Gradio does not show; requests.js does.
"""
Pair = dict[str, str]
"""Job ID by side."""


def kept_text() -> gr.Textbox:
    """Text that the page keeps and nobody sees; its `change` comes when it is another text than before."""
    return gr.Textbox("", visible="hidden", interactive=False)


def as_text(known: Mapping[str, str] | None) -> str:
    """A pair of jobs, or none, as `kept_text` holds it."""
    return "" if known is None else json.dumps(known, sort_keys=True)


def as_pair(text: str | None) -> Pair | None:
    """The pair of jobs that `as_text` made a text of."""
    return json.loads(text) if text else None
