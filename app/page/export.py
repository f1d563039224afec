"""Taking the heads away, and doing the same from the command line."""

from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import gradio as gr

from frostbench.app import jobs
from frostbench.app.command_lines import command_lines
from frostbench.app.page.common import QUIET, as_pair
from frostbench.app.page.job_text import runs_html
from frostbench.app.page.routes import HEADS
from frostbench.app.page.state import SIDES
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import run_folder

UNTRAINED = "When A and B are trained, the commands that do the same stand here."


@dataclass(frozen=True)
class Export:
    """Which runs they are of, a download for each side, and the commands."""

    runs: gr.HTML
    download: gr.HTML
    commands: gr.Code


def build_export() -> Export:
    """Lay out the section."""
    runs = gr.HTML("", elem_id="taken", apply_default_css=False)
    download = gr.HTML(downloads_html({}), elem_id="downloads", apply_default_css=False)
    commands = gr.Code(
        UNTRAINED, language="shell", label="The same from the command line", interactive=False, elem_id="commands"
    )
    return Export(runs, download, commands)


def wire_export(export: Export, ready: gr.Textbox, workspace: Workspace) -> None:
    """Heads and commands follow what is ready."""

    def offered(text: str) -> list[Any]:
        known = as_pair(text)
        if known is None:
            return ["", downloads_html({}), UNTRAINED]
        from frostbench.app.trial import best_run

        found = {side: jobs.read(workspace.store, known[side]) for side in SIDES}
        best = {side: best_run(workspace.store, found[side].keys) for side in SIDES}
        kept = {side: key if (run_folder(workspace.store, key) / "head").is_dir() else "" for side, key in best.items()}
        return [runs_html(found), downloads_html(kept), command_lines(found["A"].bench, found["B"].bench)]

    ready.change(offered, ready, [export.runs, export.download, export.commands], **QUIET)


def downloads_html(kept: dict[str, str]) -> str:
    """A link for each side that leads to the zip of its head.

    Args:
        kept: run key by side; empty for a run whose head is no longer in the store.
    """
    return f'<div class="fp fp-downloads">{"".join(_download(side, kept.get(side)) for side in SIDES)}</div>'


def _download(side: str, key: str | None) -> str:
    if key:
        where = escape(f"{HEADS.removeprefix('/')}/{quote(key, safe='')}")
        return f'<a class="fp-button" role="button" download href="{where}">Download head {side}</a>'
    words = f"Download head {side}" if key is None else f"The head of {side} is not in the store"
    return f'<a class="fp-button" role="button" aria-disabled="true">{words}</a>'
