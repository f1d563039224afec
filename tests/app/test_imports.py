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
            "frostbench.app.forms, frostbench.app.sides, frostbench.app.workbench.handlers, "
            "frostbench.app.server.calls",
            ("gradio", "typer"),
        ),
        (
            "frostbench.app.workspace, frostbench.app.server.launch, frostbench.app.server.doors, "
            "frostbench.app.server.api, frostbench.app.workbench.routes",
            ("gradio", "torch", "pandas", "sklearn"),
        ),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(modules, absent):
    code = f"import sys, {modules}; print([name for name in {absent!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
