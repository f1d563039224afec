"""Running the notebooks of the documents; `python tests/shared/notebooks.py` keeps what they print."""

import json
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(notebook, folder):
    """Run a notebook in a new kernel of this Python and write it to a folder; warnings and times are left out."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    tree = nbformat.read(notebook, as_version=4)
    NotebookClient(tree, kernel_name="python3", record_timing=False, timeout=300).execute()
    for cell in tree.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if "text" in output:
                    output.text = output.text.replace("\r\n", "\n")
    tree.metadata.language_info = {"name": "python"}
    nbformat.write(tree, folder / notebook.name)


def cells_of(notebook):
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


if __name__ == "__main__":
    # One notebook and the folder to write it to, or nothing: all of them, where they are.
    wanted = [(Path(sys.argv[1]), Path(sys.argv[2]))] if len(sys.argv) > 2 else [(each, FOLDER) for each in NOTEBOOKS]
    for notebook, folder in wanted:
        run(notebook, folder)
