"""The notebooks run, with the Python that runs the tests."""

import subprocess
import sys

import notebooks
import pytest

each = pytest.mark.parametrize("notebook", notebooks.NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.slow
@each
def test_it_runs(notebook, tmp_path):
    # A process of its own: Jupyter's libraries warn, and warnings are errors here.
    words = (sys.executable, notebooks.__file__, notebook, tmp_path)
    made = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    cells = notebooks.cells_of(tmp_path / notebook.name)
    assert [cell["source"] for cell in cells] == [cell["source"] for cell in notebooks.cells_of(notebook)]


@each
def test_what_is_kept_of_its_output_is_small(notebook):
    assert notebook.stat().st_size < 30_000
    outputs = [output for cell in notebooks.cells_of(notebook) for output in cell.get("outputs", ())]
    assert {output["output_type"] for output in outputs} == {"stream", "execute_result"}
    assert {kind for output in outputs for kind in output.get("data", ())} <= {"text/plain", "text/html"}
