"""The canary: a small synthetic image, embedded when a cache is created and again before more images are embedded.

Comparing the two vectors shows whether the current library versions and device still reproduce the stored numbers.
"""

import hashlib

import numpy as np

SIDE = 320
APART = 0.01414
"""Largest allowed relative distance between two embeddings of the canary; for vectors of equal length it corresponds to
a cosine of 0.9999. Batch sizes and devices change only the low bits."""


def canary_image() -> np.ndarray:
    """Draw gradients, stripes and a disc with integer arithmetic, uint8 [320, 320, 3], identical on every machine.

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
    """Return the SHA-256 of the canary's pixels, in hex."""
    return hashlib.sha256(canary_image().tobytes()).hexdigest()


def apart(vector: np.ndarray, expected: np.ndarray) -> float:
    """Return the distance of a vector [D] from the expected one, relative to the norm of the latter.

    Unlike a cosine, this detects a vector that is a multiple of the expected one. The result is infinite if the shapes
    differ, a number is not finite, or only the expected vector is zero.

    >>> apart(np.array([3.0, 0.0]), np.array([2.0, 0.0]))
    0.5
    """
    a, b = vector.astype(np.float64), expected.astype(np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    distance, length = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
    return distance / length if length > 0 else (0.0 if distance == 0 else float("inf"))
