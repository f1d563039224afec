"""The layout of the page and the wiring of its parts."""

from html import escape
from importlib import resources
from typing import Any

import gradio as gr

from frostbench.app.page.common import QUIET
from frostbench.app.page.compare import build_compare, wire_compare
from frostbench.app.page.export import build_export, wire_export
from frostbench.app.page.form_html import form_html
from frostbench.app.page.form_update import update_form as updated_form
from frostbench.app.page.listing import build_list
from frostbench.app.page.training import attach, build_training, wire_training
from frostbench.app.page.trying import build_try, wire_try
from frostbench.app.uploads import Uploads
from frostbench.app.workbench.documents import TABS
from frostbench.app.workspace import Workspace

PAIR_KEY = "frostbench_pair"


def build(workspace: Workspace, uploads: Uploads) -> gr.Blocks:
    """Build the page."""
    with gr.Blocks(title="Frostbench", fill_width=True, analytics_enabled=False) as page:
        # The secret only obscures what the browser stores; it is fixed, so that a restarted server can read the value.
        pair = gr.BrowserState(None, storage_key=PAIR_KEY, secret="frostbench")
        title = gr.HTML(title_html(workspace), apply_default_css=False, elem_id="title")
        with gr.Column(elem_classes="fp-bench", elem_id="bench"):
            gr.HTML('<div class="fp-slot"></div>', elem_id="difference", apply_default_css=False)
            training = build_training()
        heading("Options", "options", "Differences between A and B are tinted; disabled options show the reason.")
        form = _form(workspace)
        heading("Training", "training")
        training.progress.render()
        build_list(workspace)
        heading("What changed", "changed")
        compare = build_compare()
        heading("Try an image", "try-it")
        trying = build_try()
        heading("Export", "export", EXPORT)
        export = build_export()
        wire_training(training, workspace, pair)
        wire_compare(compare, training.ready, workspace)
        wire_try(trying, training.ready, workspace, uploads)
        wire_export(export, training.ready, workspace)

        def load(stored: Any, request: gr.Request) -> list[Any]:
            return attach(stored, dict(request.query_params), workspace)

        buttons = [training.copy, *training.start.values()]
        form.apply(lambda: [gr.update(interactive=True)] * len(buttons), None, buttons, **QUIET)
        page.load(lambda: title_html(workspace), None, title, **QUIET)
        page.load(load, pair, [pair, *training.outputs], **QUIET)
    return page


def _form(workspace: Workspace) -> gr.HTML:
    """Lay out the rows of options; their script calls `update_form` after each change."""

    def update_form(request: Any) -> dict[str, Any]:
        return updated_form(request, workspace)

    script = (resources.files("frostbench.app.page") / "form.js").read_text("utf-8")
    return gr.HTML(
        form_html(), js_on_load=script, server_functions=[update_form], apply_default_css=False, elem_id="options-form"
    )


def heading(title: str, anchor: str, sentence: str = "") -> None:
    """Lay out a section heading with an anchor for the links in the title."""
    text = f"<p>{sentence}</p>" if sentence else ""
    gr.HTML(f'<div class="fp fp-heading" id="{anchor}"><h2>{title}</h2>{text}</div>', apply_default_css=False)


def title_html(workspace: Workspace) -> str:
    """Return the title, the links to the sections, the run store, and instructions if there is no cache yet."""
    links = "".join(f'<a href="#{anchor}">{label}</a>' for anchor, label in LINKS.items())
    links += "".join(f'<a href="{address}">{label}</a>' for label, address in TABS.items())
    return (
        f'<div class="fp fp-title"><h1>Frostbench</h1><nav aria-label="Sections">{links}</nav><p>Compare two '
        "classifiers on frozen embeddings: configure A and B, train both, see what changed. Runs are stored in "
        f"<code>{escape(str(workspace.store))}</code>.</p></div>{'' if workspace.cache_names() else _EMPTY}"
    )


LINKS = {
    "options": "Options",
    "training": "Training",
    "changed": "What changed",
    "try-it": "Try an image",
    "export": "Export",
}
EXPORT = (
    "The head of the best seed as a zip file: weights, class names, preprocessing, settings, metrics and a model card. "
    "Unpack it to use it with <code>frostbench predict</code>."
)
_EMPTY = (
    '<div class="fp fp-empty" data-testid="no-cache"><b>No cache yet.</b> A cache holds the vectors of your images. '
    "Create one from a folder with one subfolder per class, then reload this page:"
    "<pre>frostbench embed IMAGES/ --cache mine</pre>or use the built-in sample:"
    "<pre>frostbench demo --data digits</pre></div>"
)
