import os
import subprocess
import sys

import pytest

from frostbench.app.server.quick_gradio import MODULE, WRITER

# Runs in its own process, because gradio is imported only once per process.
SCRIPT = """
import ast, sys
parsed = []
real = ast.get_source_segment
ast.get_source_segment = lambda *given, **named: parsed.append(given) or real(*given, **named)
before = list(sys.meta_path)
from frostbench.app.server import quick_gradio
quick_gradio.MODULE, quick_gradio.WRITER = sys.argv[1:]
quick_gradio.import_gradio()
import gradio as gr
with gr.Blocks() as page:
    gr.Button("Go").click(lambda: None)
print(bool(parsed), len(page.fns), sys.meta_path == before)
"""


def imported(*names):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names],
        capture_output=True,
        text=True,
        env=os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_gradio_writes_no_stubs_and_keeps_its_events():
    assert imported(MODULE, WRITER) == ["False", "1", "True"]


@pytest.mark.slow
@pytest.mark.parametrize("names", [(MODULE, "no_such_function"), ("gradio.no_such_module", WRITER)])
def test_gradio_is_imported_normally_if_the_writer_is_missing(names):
    assert imported(*names) == ["True", "1", "True"]
