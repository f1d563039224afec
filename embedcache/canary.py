"""The canary: a small image made by integer arithmetic, embedded at the start of a cache and again before its use.

Its stored vectors tell whether today's library versions and device still give yesterday's numbers.
"""

import hashlib

import numpy as np

SIDE = 320
APART = 0.01414
"""Largest distance between a canary's vectors of two runs, as a share of the first's length: that of a cosine of 0.9999
at equal length. Batch sizes and devices move the low bits only."""


def canary_image() -> np.ndarray:
    """Gradients, stripes and a disc, uint8 [320, 320, 3]: smooth and sharp, coloured, and the same everywhere.

    >>> canary_sha256()[:12]
    '60c2c3b6d12b'
    """
    row, column = np.mgrid[0:SIDE, 0:SIDE].astype(np.int64)
    disc = (row - 190) ** 2 + (column - 120) ** 2 < 80**2
    red = (row * 255) // (SIDE - 1)
    green = np.where((row + 2 * column) // 16 % 2 == 0, (column * 255) // (SIDE - 1), 40)
    blue = np.where(disc, 230, (row * column) // 401 % 256)
    return np.stack([red, green, blue], axis=2).astype(np.uint8)


def canary_sha256() -> str:
    """SHA-256 of the canary's pixels, in hex."""
    return hashlib.sha256(canary_image().tobytes()).hexdigest()


def apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The distance of a vector [D] from the one that is wanted, as a share of the latter's length.

    A cosine would not see a vector that is a multiple of the other. Infinite where lengths of vectors differ, a number
    is not finite, or only the wanted one is zero.

    >>> apart(np.array([3.0, 0.0]), np.array([2.0, 0.0]))
    0.5
    """
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    distance, length = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
    return distance / length if length > 0 else (0.0 if distance == 0 else float("inf"))
