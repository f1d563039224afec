"""k nearest neighbours with faiss, compared with scikit-learn's brute-force cosine search."""

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch.nn.functional import normalize

from frostbench.benchmarks.speed.harness import Figure, compare
from frostbench.heads.closed_form.knn import Neighbours
from frostbench.heads.fitting_rows import Rows

ROWS, QUERIES, DIM, CLASSES = 20_000, 2_000, 768, 10
GOAL = 1.0


def figures(quick: bool) -> Iterator[Figure]:
    """Yield one figure; both sides hold the same unit rows, and only queries are timed, with the same votes."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (ROWS,), generator=draw)
    means = torch.randn(CLASSES, DIM, generator=draw)
    keys = normalize(0.2 * means[labels] + torch.randn(ROWS, DIM, generator=draw))
    queries = normalize(torch.randn(QUERIES, DIM, generator=draw))
    spec = Neighbours(k=20, temperature=0.07)
    head = spec.fit(Rows(keys, labels, torch.ones(ROWS, dtype=torch.float64), CLASSES))
    # Unit rows: the squared distance is 2 - 2 cos, so exp(cos / T) is exp(-distance^2 / 2 T) times a constant.
    peer = KNeighborsClassifier(20, algorithm="brute", weights=lambda d: np.exp(-(d**2) / 0.14))
    peer.fit(keys.numpy(), labels.numpy())

    def ours() -> None:
        with torch.no_grad():
            head(queries).softmax(1)

    unit = f"scikit-learn seconds / our seconds for {QUERIES} queries of {ROWS} rows"
    yield compare(
        "knn.faiss", ours, lambda: peer.predict_proba(queries.numpy()), goal=GOAL, repeats=3 if quick else 5, unit=unit
    )
