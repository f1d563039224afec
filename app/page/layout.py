"""The page from top to bottom, and which handlers belong to which part."""

from html import escape
from importlib import resources
from typing import Any

import gradio as gr

from frostbench.app.page.common import QUIET
from frostbench.app.page.compare import build_compare, wire_compare
from frostbench.app.page.export import build_export, wire_export
from frostbench.app.page.form_html import form_html
from frostbench.app.page.judge import judge as judge_form
from frostbench.app.page.listing import build_list
from frostbench.app.page.training import attach, build_training, wire_training
from frostbench.app.page.trying import build_try, wire_try
from frostbench.app.uploads import Uploads
from frostbench.app.workspace import Workspace

PAIR_KEY = "frostbench_pair"


def build(workspace: Workspace, uploads: Uploads) -> gr.Blocks:
    """The whole page; uploads are the images that it may try."""
    with gr.Blocks(title="Frostbench", fill_width=True, analytics_enabled=False) as page:
        # The secret only scrambles what the browser keeps; a fixed one lets it be read after a restart.
        pair = gr.BrowserState(None, storage_key=PAIR_KEY, secret="frostbench")
        title = gr.HTML(title_html(workspace), apply_default_css=False, elem_id="title")
        with gr.Column(elem_classes="fp-bench", elem_id="bench"):
            gr.HTML('<div class="fp-slot"></div>', elem_id="difference", apply_default_css=False)
            training = build_training()
        heading("Options", "options", "One row for each option. What differs is tinted; what cannot be used says why.")
        form = _form(workspace)
        heading("Training", "training")
        training.progress.render()
        build_list(workspace)
        heading("What changed", "changed")
        compare = build_compare()
        heading("Try an image", "try-it")
        trying = build_try()
        heading("Take it away", "take", TAKE)
        export = build_export()
        wire_training(training, workspace, pair)
        wire_compare(compare, training.ready, workspace)
        wire_try(trying, training.ready, workspace, uploads)
        wire_export(export, training.ready, workspace)

        def again(known: Any, request: gr.Request) -> list[Any]:
            return attach(known, dict(request.query_params), workspace)

        buttons = [training.copy, *training.start.values()]
        form.apply(lambda: [gr.update(interactive=True)] * len(buttons), None, buttons, **QUIET)
        page.load(lambda: title_html(workspace), None, title, **QUIET)
        page.load(again, pair, [pair, *training.outputs], **QUIET)
    return page


def _form(workspace: Workspace) -> gr.HTML:
    """The rows of options; their script asks `judge` what the values stand for, and tells once they are there."""

    def judge(asked: Any) -> dict[str, Any]:
        return judge_form(asked, workspace)

    script = (resources.files("frostbench.app.page") / "form.js").read_text("utf-8")
    return gr.HTML(
        form_html(), js_on_load=script, server_functions=[judge], apply_default_css=False, elem_id="options-form"
    )


def heading(title: str, anchor: str, sentence: str = "") -> None:
    """A heading that the bar at the top can lead to."""
    told = f"<p>{sentence}</p>" if sentence else ""
    gr.HTML(f'<div class="fp fp-heading" id="{anchor}"><h2>{title}</h2>{told}</div>', apply_default_css=False)


def title_html(workspace: Workspace) -> str:
    """The page's head: what it is, where runs are kept, and what to do where there is no cache yet."""
    links = "".join(f'<a href="#{anchor}">{words}</a>' for anchor, words in LINKS.items())
    return (
        f'<div class="fp fp-title"><h1>Frostbench</h1><nav aria-label="Sections">{links}</nav><p>Two classifiers on '
        "the same frozen embeddings: set A and B, train both, see what changed. Runs are kept in "
        f"<code>{escape(str(workspace.store))}</code>.</p></div>{'' if workspace.cache_names() else _EMPTY}"
    )


LINKS = {
    "options": "Options",
    "training": "Training",
    "changed": "What changed",
    "try-it": "Try",
    "take": "Take it away",
}
TAKE = (
    "The head of the best seed: weights, class names, preprocessing, settings, metrics and a card, in one zip. "
    "<code>frostbench predict</code> reads it once it is unpacked."
)
_EMPTY = (
    '<div class="fp fp-empty" data-testid="no-cache"><b>No cache yet.</b> A cache holds the vectors of your images. '
    "Make one from a folder with one sub-folder per class, then reload this page:"
    "<pre>frostbench embed IMAGES/ --cache mine</pre>or try the built-in sample:"
    "<pre>frostbench demo --data digits</pre></div>"
)
