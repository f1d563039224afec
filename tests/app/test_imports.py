"""What is imported when: a command line that waits for gradio or torch before it says its help is not used twice."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("frostbench.app.cli", ("gradio", "torch", "pandas")),
        ("frostbench.app.jobs, frostbench.app.worker", ("gradio", "torch", "pandas")),
        (
            "frostbench.app.jobs.training, frostbench.training.engine.fit, frostbench.benchmarks.runs.runner",
            ("gradio", "typer"),
        ),
        (
            "frostbench.app.forms, frostbench.app.sides, frostbench.app.page.form_update, "
            "frostbench.app.page.form_html, frostbench.app.views.compare",
            ("gradio", "typer"),
        ),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(modules, absent):
    code = f"import sys, {modules}; print([name for name in {absent!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
