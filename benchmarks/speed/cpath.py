"""Logistic regression at many strengths C: all in one batch, compared with a loop of scikit-learn fits.

Both get float64 rows and stop when no entry of the gradient of the same objective exceeds 1e-6 in absolute value:
scikit-learn's lbfgs tests this itself if tol is 1e-6. The largest entry is recomputed for both in the same way; if the
peer's exceeds 1e-6 after 5000 steps, the figure says so.

The rows are random numbers with a spectrum like that of embeddings, whose k-th largest variance falls as 1 / k, around
overlapping class means; all features have the same scale, as after standardisation. The second and third tables use 4
strengths of the same range instead of 16, because of the peer's run time.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Peer
from torch import Tensor

from frostbench.benchmarks.speed.harness import Figure, figure, seconds
from frostbench.heads.logreg.logreg import LogisticRegression, solve_path

SIZES = ((5_000, 384, 10, 16), (10_000, 768, 50, 4), (2_000, 768, 100, 4))
"""Rows, features, classes, strengths."""
TOLERANCE = 1e-6
PEER_STEPS = 5_000
GOAL = 2.0
Answer = list[tuple[Tensor, Tensor]]
"""Weight [C, D] and bias [C] for each strength."""


def figures(quick: bool) -> Iterator[Figure]:
    """Yield one figure per size; `quick` uses the first size with 4 strengths and fewer repeats."""
    for rows, dim, classes, count in SIZES[:1] if quick else SIZES:
        strengths = np.logspace(-4, 2, 4 if quick else count).tolist()
        yield measure(*table(rows, dim, classes), classes, strengths, repeats=2 if quick else 3)


def measure(x: Tensor, labels: Tensor, classes: int, strengths: list[float], repeats: int) -> Figure:
    """Time both sides alternately on one table, and check their final gradients."""
    answers: dict[str, Answer] = {}

    def ours() -> None:
        answers["ours"] = ours_on(x, labels, classes, strengths)

    def peer() -> None:
        answers["peer"] = peer_on(x, labels, strengths)

    ours_on(x[: 4 * classes], labels[: 4 * classes], classes, strengths[:1])
    pairs = []
    for i in range(repeats):
        order: tuple[Callable[[], None], ...] = (peer, ours) if i % 2 else (ours, peer)
        took = {action: seconds(action) for action in order}
        pairs.append((took[ours], took[peer]))
    ends = {name: largest_gradient(x, labels, strengths, answer) for name, answer in answers.items()}
    unit = (
        f"peer seconds / our seconds for {len(strengths)} strengths at gradients {ends['peer']:.1e}, {ends['ours']:.1e}"
    )
    if ends["peer"] > TOLERANCE:
        unit += f"; the peer did not reach {TOLERANCE} in {PEER_STEPS} steps"
    if ends["ours"] > TOLERANCE:
        unit += f"; ours did not reach {TOLERANCE}, so the goal is missed"
    name = f"cpath.{len(x)}x{x.shape[1]}x{classes}"
    goal = GOAL if ends["ours"] <= TOLERANCE else float("inf")
    return figure(name, pairs, [theirs / mine for mine, theirs in pairs], goal=goal, unit=unit)


def ours_on(x: Tensor, labels: Tensor, classes: int, strengths: list[float]) -> Answer:
    """Fit all strengths in one call."""

    def mean_losses(logits: Tensor, index: Tensor) -> Tensor:
        own = labels.view(1, -1, 1).expand(len(logits), -1, 1)
        return -logits.log_softmax(-1).gather(2, own).mean((1, 2))

    specs = [LogisticRegression(c=c, tolerance=TOLERANCE) for c in strengths]
    return [(found.weight, found.bias) for found in solve_path(specs, x, mean_losses, classes)]


def peer_on(x: Tensor, labels: Tensor, strengths: list[float]) -> Answer:
    """Fit one strength after the other."""
    found = []
    for c in strengths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = Peer(C=c, tol=TOLERANCE, max_iter=PEER_STEPS).fit(x.numpy(), labels.numpy())
        found.append((torch.from_numpy(fit.coef_), torch.from_numpy(fit.intercept_)))
    return found


def largest_gradient(x: Tensor, labels: Tensor, strengths: list[float], answer: Answer) -> float:
    """Return the largest absolute entry of the objective's gradient, by its formula, over all strengths."""
    norms = []
    for c, (weight, bias) in zip(strengths, answer, strict=True):
        error = (x @ weight.T + bias).softmax(1)
        error[torch.arange(len(x)), labels] -= 1
        in_weight = error.T @ x / len(x) + weight / (c * len(x))
        norms.append(max(in_weight.abs().max().item(), error.mean(0).abs().max().item()))
    return max(norms)


def table(rows: int, dim: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return standardised rows [N, D] float64 and labels [N]; each class has at least one row."""
    draw = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=draw, dtype=torch.float64))[0]
    deviation = torch.arange(1, dim + 1, dtype=torch.float64).rsqrt()
    means = 0.2 * torch.randn(classes, dim, generator=draw, dtype=torch.float64)
    labels = torch.cat([torch.arange(classes), torch.randint(0, classes, (rows - classes,), generator=draw)])
    x = ((torch.randn(rows, dim, generator=draw, dtype=torch.float64) + means[labels]) * deviation) @ turn
    return (x - x.mean(0)) / x.std(0), labels
