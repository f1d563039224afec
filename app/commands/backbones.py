"""`frostbench backbones`."""

from typing import Annotated, Any

import typer


def backbones(
    pattern: Annotated[str, typer.Argument(help="Part of a name; * matches any characters.")] = "",
) -> None:
    """List known backbones. Shows dimension, input size, licence, and whether the weights are available."""
    from frostbench.embedcache.backbones.catalogue import find_known, how_to_get, is_at_hand, way_to_get

    found = find_known(pattern)
    if not found:
        raise ValueError(
            f"No backbone in the catalogue matches {pattern!r}. Omit the pattern to list all; models outside the "
            "catalogue are named PROVIDER:MODEL in the same way."
        )
    rows = [("backbone", "dim", "size", "licence", "weights")]
    absent: dict[tuple[str, str], Any] = {}
    for known in found:
        here = "at hand" if is_at_hand(known) else way_to_get(known)
        if here != "at hand":
            absent.setdefault((here, known.provider), known)
        rows.append((known.name, str(known.dim), str(known.size), known.licence, here))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))
    print()
    for (here, _), known in absent.items():
        print(f"{here}, such as {known.name}: {how_to_get(known)}")
    print("Your own files: onnx:FILE, huggingface:FOLDER, open_clip:local-dir:FOLDER, timm:MODEL --weights FILE.")
