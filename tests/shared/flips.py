"""A file with one bit flipped, again and again, and at last as it was."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np


def flips(path: Path, count: int, seed: int = 0) -> Iterator[int]:
    """Flip a random bit of a file, wait, and put it back, `count` times; gives the place of each bit."""
    whole = path.read_bytes()
    try:
        for place in np.random.default_rng(seed).integers(0, 8 * len(whole), count).tolist():
            content = bytearray(whole)
            content[place // 8] ^= 1 << place % 8
            path.write_bytes(content)
            yield place
    finally:
        path.write_bytes(whole)
