"""Images for the demo from installed packages: solar cells, or scikit-learn's digits as a smoke test."""

import csv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from frostbench.embedcache.outputs.places import OutputError, check_folder
from frostbench.embedcache.outputs.writing import new_file, write_text

ELPV_NOTICE = (
    "Images: elpv-dataset, electroluminescence pictures of solar cells (Buerhop-Lutz et al., EU PVSEC 2018; Deitsch et "
    "al., Solar Energy 2019, Machine Vision and Applications 2021). Licence CC BY-NC-SA 4.0: not for commercial use."
)
DIGITS_NOTICE = "Images: scikit-learn's digits (UCI optical recognition of handwritten digits), made long-tailed here."
MARK, MADE = "demo.txt", "Made by `frostbench demo`, which replaces what lies here.\n"


@dataclass(frozen=True)
class DemoImages:
    """A manifest, the folder its paths start from, and the source and licence of the images."""

    manifest: Path
    root: Path
    notice: str


def claim_folder(folder: Path) -> None:
    """Mark a folder that is new, empty or from an earlier demo as the demo's; its files may then be replaced.

    Raises:
        OutputError: the folder holds other files, or cannot be written.
    """
    check_folder(folder)
    mark = folder / MARK
    if folder.exists() and any(folder.iterdir()) and not (mark.is_file() and mark.read_bytes() == MADE.encode()):
        raise OutputError(
            f"The demo needs a new or empty folder, or that of an earlier demo, but {folder} holds other files. Choose "
            "another folder with --out."
        )
    write_text(mark, MADE)


def solar_cells(folder: Path) -> DemoImages:
    """Return the installed elpv-dataset: 2,624 images in 8 classes of cell type and defect probability in percent.

    Raises:
        ModuleNotFoundError: the package elpv-dataset is not installed.
    """
    package = find_spec("elpv_dataset")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "The demo's images are in the package elpv-dataset, which is not installed. "
            "Run pip install 'frostbench[demo]', or use --data digits."
        )
    data = Path(package.origin).parent / "data"
    rows = [line.split() for line in (data / "labels.csv").read_text(encoding="utf-8").splitlines() if line.strip()]
    named = [(path, f"{kind} {100 * float(share):.0f} %") for path, share, kind in rows]
    return DemoImages(_write_manifest(folder / "solar_cells.csv", named), data, ELPV_NOTICE)


def digits(folder: Path) -> DemoImages:
    """Write scikit-learn's digits as PNG files below `folder`: 10 long-tailed classes, from 120 images down to 8."""
    images, labels = load_digits(return_X_y=True)
    named = []
    for digit, count in enumerate(np.geomspace(120, 8, 10).astype(int)):
        for i in np.flatnonzero(labels == digit)[:count]:
            path = folder / "digits" / str(digit) / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = (images[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).resize((64, 64), Image.Resampling.BICUBIC).save(path)
            named.append((str(path.relative_to(folder)), f"digit {digit}"))
    return DemoImages(_write_manifest(folder / "digits.csv", named), folder, DIGITS_NOTICE)


def _write_manifest(path: Path, rows: list[tuple[str, str]]) -> Path:
    with new_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows(rows)
    return path
