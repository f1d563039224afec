import os
import subprocess
import sys

# In a process of its own: gradio is imported once in each.
SCRIPT = """
import ast, sys
parsed = []
real = ast.get_source_segment
ast.get_source_segment = lambda *given, **named: parsed.append(given) or real(*given, **named)
before = list(sys.meta_path)
from app.page.quick_gradio import import_gradio
import_gradio()
import gradio as gr
with gr.Blocks() as page:
    gr.Button("Go").click(lambda: None)
print(len(parsed), len(page.fns), sys.meta_path == before)
"""


def test_gradio_writes_no_stubs_and_its_events_are_there():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"},
        timeout=120,
    )
    assert done.stdout.split() == ["0", "1", "True"], done.stderr
