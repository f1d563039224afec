"""The canary: a small image made by integer arithmetic, embedded at the start of a cache and again before its use.

Its stored vectors tell whether today's library versions and device still give yesterday's numbers.
"""

import hashlib

import numpy as np

SIDE = 320
LIKE = 0.9999
"""Least cosine between a canary's vectors of two runs; batch sizes and devices move the low bits only."""


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


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """The cosine of two vectors [D]; 1 where both are zero, 0 where one is.

    >>> cosine(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    1.0
    """
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    if lengths == 0:
        return float(np.array_equal(a, b))
    return float(a @ b) / lengths
