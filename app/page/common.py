"""Helpers shared by all parts of the page."""

import json
from collections.abc import Mapping
from typing import Any

import gradio as gr

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
"""Settings of the page's events: no loading overlay, and one short request each.

A browser opens at most six connections to a server for all of its tabs. So no event waits in Gradio's queue, which
keeps a connection open for its replies, and the page has no `gr.State`, which keeps one open per tab. Gradio does not
show errors of such events; requests.js does.
"""
Pair = dict[str, str]
"""Job ID by side."""


def hidden_text() -> gr.Textbox:
    """Return a hidden text box, whose `change` event fires when its text changes."""
    return gr.Textbox("", visible="hidden", interactive=False)


def encode_pair(pair: Mapping[str, str] | None) -> str:
    """Encode a pair of jobs, or None, as the value of a `hidden_text`."""
    return "" if pair is None else json.dumps(pair, sort_keys=True)


def decode_pair(text: str | None) -> Pair | None:
    """Decode a pair of jobs encoded by `encode_pair`."""
    return json.loads(text) if text else None
