"""Images without a label, in the order in which their labels should help most."""

from typing import Any

import numpy as np
import numpy.typing as npt

from frostbench.app.workbench.data.labels import NO_LABEL, Labels
from frostbench.embedcache.index import next_labels
from frostbench.embedcache.index.rows import Numbers, Vectors, column_of

BATCH = 100
"""Number of images that are ranked at a time."""
MOST_ROWS = 20_000
"""Largest number of labelled, and of unlabelled, images that are looked at; of more, a random sample is."""
DIMENSIONS = 256
"""Principal components that the vectors are reduced to, as in docs/results/labels.md."""


def label_next(labels: Labels) -> dict[str, Any]:
    """Rank images that have no label and that nobody has looked at, by strategy `auto` of `next_labels`.

    Returns:
        `rows`, the first 100; `suggested`, the class that LDA fitted to all labels finds most probable for each, or -1
        while only one class is known, and its probability `confidence`; and `unlabelled`, the number of images ranked.
    """
    rng = np.random.default_rng(0)
    checked = np.isin(labels.table.ids, [*labels.checked])
    known = _some(np.flatnonzero(labels.now >= 0), rng)
    free = _some(np.flatnonzero((labels.now == NO_LABEL) & ~checked), rng)
    if not len(free):
        return {"rows": [], "suggested": [], "confidence": [], "unlabelled": 0}
    rows = np.sort(np.concatenate([known, free]))
    x, now = _reduced(column_of(labels.table)[1].only(rows).block(0, len(rows))), np.maximum(labels.now[rows], -1)
    classes, p = _probabilities(x, now)
    chosen = next_labels(x, now, p, BATCH)
    likely = np.full(len(chosen), -1) if p is None else classes[p[chosen].argmax(axis=1)]
    sure = np.zeros(len(chosen)) if p is None else p[chosen].max(axis=1)
    return {
        "rows": rows[chosen].tolist(),
        "suggested": likely.tolist(),
        "confidence": sure.round(4).tolist(),
        "unlabelled": len(free),
    }


def _some(rows: Numbers, rng: np.random.Generator) -> Numbers:
    return rows if len(rows) <= MOST_ROWS else np.asarray(rng.choice(rows, MOST_ROWS, replace=False))


def _reduced(x: Vectors) -> Vectors:
    """Return the principal components [N, at most 256] of rows [N, D]."""
    from sklearn.decomposition import PCA

    found = PCA(min(DIMENSIONS, *x.shape), svd_solver="covariance_eigh").fit_transform(x)
    return np.asarray(found, dtype=np.float32)


def _probabilities(x: Vectors, labels: Numbers) -> tuple[Numbers, npt.NDArray[np.float64] | None]:
    """Return the known classes [K], and the probabilities [N, K] by LDA; None while there are fewer than two."""
    import torch

    from frostbench.heads.closed_form.lda import Lda
    from frostbench.heads.fitting_rows import Rows

    known = labels >= 0
    classes, own = np.unique(labels[known], return_inverse=True)
    if len(classes) < 2:
        return classes, None
    weight = torch.ones(int(known.sum()), dtype=torch.float64)
    layer = Lda().fit(Rows(torch.from_numpy(x[known]), torch.from_numpy(own), weight, len(classes)))
    with torch.inference_mode():
        return classes, layer(torch.from_numpy(x)).double().softmax(1).numpy()
