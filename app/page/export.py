"""The export section: downloads of the heads, and equivalent shell commands."""

from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import gradio as gr

from frostbench.app import jobs
from frostbench.app.command_lines import command_lines
from frostbench.app.page.common import QUIET, decode_pair
from frostbench.app.page.form import SIDES
from frostbench.app.page.job_text import runs_html
from frostbench.app.page.routes import HEADS
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import run_folder

UNTRAINED = "Train A and B to see the equivalent commands."


@dataclass(frozen=True)
class Export:
    """The runs, the downloads and the commands."""

    runs: gr.HTML
    download: gr.HTML
    commands: gr.Code


def build_export() -> Export:
    """Lay out the section."""
    runs = gr.HTML("", elem_id="taken", apply_default_css=False)
    download = gr.HTML(downloads_html({}), elem_id="downloads", apply_default_css=False)
    commands = gr.Code(
        UNTRAINED, language="shell", label="Equivalent shell commands", interactive=False, elem_id="commands"
    )
    return Export(runs, download, commands)


def wire_export(export: Export, ready: gr.Textbox, workspace: Workspace) -> None:
    """Update downloads and commands when the finished jobs change."""

    def update(text: str) -> list[Any]:
        ids = decode_pair(text)
        if ids is None:
            return ["", downloads_html({}), UNTRAINED]
        from frostbench.app.trial import best_run

        read = {side: jobs.read(workspace.store, ids[side]) for side in SIDES}
        best = {side: best_run(workspace.store, read[side].keys) for side in SIDES}
        kept = {side: key if (run_folder(workspace.store, key) / "head").is_dir() else "" for side, key in best.items()}
        return [runs_html(read), downloads_html(kept), command_lines(read["A"].bench, read["B"].bench)]

    ready.change(update, ready, [export.runs, export.download, export.commands], **QUIET)


def downloads_html(kept: dict[str, str]) -> str:
    """Return a link per side to the zip file of its head.

    Args:
        kept: run key by side; empty for a run whose head is no longer in the store.
    """
    return f'<div class="fp fp-downloads">{"".join(_download(side, kept.get(side)) for side in SIDES)}</div>'


def _download(side: str, key: str | None) -> str:
    if key:
        address = escape(f"{HEADS.removeprefix('/')}/{quote(key, safe='')}")
        return f'<a class="fp-button" role="button" download href="{address}">Download head {side}</a>'
    label = f"Download head {side}" if key is None else f"Head {side} is not in the store"
    return f'<a class="fp-button" role="button" aria-disabled="true">{label}</a>'
