"""Taking the heads away, and doing the same from the command line."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import jobs
from app.command_lines import command_lines
from app.page.common import QUIET
from app.page.state import SIDES
from app.page.telling import runs_html
from app.workspace import Workspace
from benchmarks.store import run_folder

UNTRAINED = "When A and B are trained, the commands that do the same stand here."


@dataclass(frozen=True)
class Export:
    """Which runs they are of, a download for each side, and the commands."""

    runs: gr.HTML
    download: dict[str, gr.DownloadButton]
    commands: gr.Code


def build_export() -> Export:
    """Lay out the section."""
    runs = gr.HTML("", elem_id="taken", apply_default_css=False)
    with gr.Row(elem_classes="fp-buttons"):
        download = {
            side: gr.DownloadButton(f"Download head {side}", interactive=False, size="md", elem_id=f"download-{side}")
            for side in SIDES
        }
    commands = gr.Code(
        UNTRAINED, language="shell", label="The same from the command line", interactive=False, elem_id="commands"
    )
    return Export(runs, download, commands)


def wire_export(export: Export, ready: gr.State, workspace: Workspace) -> None:
    """Heads and commands follow what is ready."""

    def offered(known: Mapping[str, str] | None) -> list[Any]:
        if known is None:
            none = [gr.update(value=None, interactive=False, label=f"Download head {side}") for side in SIDES]
            return ["", *none, UNTRAINED]
        from app.trial import best_run

        found = {side: jobs.read(workspace.store, known[side]) for side in SIDES}
        offers = [_offer(workspace, best_run(workspace.store, found[side].keys), side) for side in SIDES]
        return [runs_html(found), *offers, command_lines(found["A"].bench, found["B"].bench)]

    ready.change(offered, ready, [export.runs, *export.download.values(), export.commands], **QUIET)


def _offer(workspace: Workspace, key: str, side: str) -> Any:
    """The download of a side's head; a run whose head was removed has none."""
    if not (run_folder(workspace.store, key) / "head").is_dir():
        return gr.update(value=None, interactive=False, label=f"The head of {side} is not in the store")
    return gr.update(value=str(zipped(workspace, key, side)), interactive=True, label=f"Download head {side}")


def zipped(workspace: Workspace, key: str, side: str) -> Path:
    """A zip of a run's bundle, made once."""
    out = workspace.scratch / "exports" / key / f"head-{side}-{key}.zip"
    if not out.is_file():
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = shutil.make_archive(
            str(out.with_suffix("")) + ".partial", "zip", run_folder(workspace.store, key), "head"
        )
        Path(partial).replace(out)
    return out
