"""Makes the zip file of a bundle and the report of a comparison; runs in the process that imports torch."""

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.decisions.exporting import export_run
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.exporting import export_runs
from frostbench.benchmarks.runs.store import read_record

FOLDER = "head"
"""Name of the folder in the zip file."""


def make_bundle(
    store: Path,
    keys: Sequence[str],
    cache: Path | None,
    is_refit: bool,
    folder: Path,
    device: str,
    plugins: tuple[Path, ...],
) -> Path:
    """Write the bundle of a run, or of the ensemble of several, as a zip file below `folder`; return its path.

    A single head that is not refitted gets the decision that is kept for its run.

    Raises:
        ValueError: the bundle cannot be made, see `frostbench.benchmarks.runs.exporting.export_runs`.
        OSError: the files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(8)
    made, packed = folder / name, folder / f"{name}.zip"
    # Of a single run the head of the store is taken, so its cache need not be there.
    home = cache or Path(read_record(store, keys[0]).data.cache)
    try:
        if len(keys) == 1 and not is_refit:
            export_run(store, keys[0], made, plugins)
        else:
            export_runs(store, [read_record(store, key) for key in keys], home, made, refit=is_refit, device=device)
        zip_folder(made, packed)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return packed


def zip_folder(folder: Path, out: Path) -> None:
    """Write the files of a bundle, except links, to a zip file with a single folder `head`."""
    with ZipFile(out, "w", ZIP_STORED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                packed.write(path, Path(FOLDER) / path.relative_to(folder))


def make_report(store: Path, a: Sequence[str], b: Sequence[str], names: tuple[str, str], folder: Path) -> Path:
    """Write the report that compares two settings on validation images as one HTML file; return its path.

    Raises:
        StoreError: the runs cannot be compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    base, other = names if names[0] != names[1] else (f"A: {names[0]}", f"B: {names[1]}")
    found = compare(store, {base: tuple(a), other: tuple(b)}, base, "select", title=f"{other} against {base}")
    return write_report([found], store, folder / f"{secrets.token_hex(8)}.html")
