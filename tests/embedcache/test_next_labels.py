"""What to label next: hand-computed choices, the library scikit-activeml, and rules that every strategy keeps."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

from frostbench.embedcache.index.acquisition import (
    badge,
    clusters_of,
    entropy_uncertainty,
    k_center,
    margin_uncertainty,
    typical,
    typicality,
    uncertain_and_spread,
)
from frostbench.embedcache.index.next_labels import NEEDS_PROBABILITIES, STRATEGIES, next_labels


def drawn(rows: int = 60, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vectors [N, 5], labels [N] of the first third and -1 for the others, and probabilities [N, C]."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(rows) < rows // 3, np.arange(rows) % classes, -1)
    return rng.normal(size=(rows, 5)).astype(np.float32), labels, rng.dirichlet(np.ones(classes), rows)


class Follows:
    """Stands in for a random generator: takes the given choices, and keeps the probabilities it was given."""

    def __init__(self, choices: list[int]) -> None:
        self.choices, self.seen = list(choices), []

    def choice(self, count: int, p: np.ndarray) -> int:
        self.seen.append(p)
        return self.choices.pop(0)


def test_k_center_takes_the_farthest_from_all_that_are_known_or_chosen():
    x = np.array([[0.0], [1.0], [4.0], [10.0], [6.5]], np.float32)
    known = np.array([True, False, False, False, False])
    # 10 is 10 away from 0; then 4 is 4 away from 0, and 6.5 is 3.5 away from 10; then 6.5 is 2.5 away from 4.
    assert k_center(x, known, 4).tolist() == [3, 2, 4, 1]
    # The mean is 4.3, from which 10 is the farthest.
    assert k_center(x, np.zeros(5, bool), 2).tolist() == [3, 0]


def test_badge_draws_by_squared_distance_of_gradients():
    x = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]], np.float32)
    p = np.array([[0.6, 0.4], [0.5, 0.5], [0.9, 0.1]])
    # a is (-.4, .4), (-.5, .5), (-.1, .1); squared lengths of a ⊗ x: .32, .5 * 4 = 2, .02. The longest is row 1, which
    # is orthogonal to the others, so squared distances to it are 2.32 and 2.02.
    follows = Follows([2, 0])
    assert badge(x, p, 3, follows).tolist() == [1, 2, 0]
    assert follows.seen[0] == pytest.approx(np.array([2.32, 0, 2.02]) / 4.34, abs=1e-6)
    assert follows.seen[1] == pytest.approx([1, 0, 0])


def test_badge_draws_evenly_where_no_gradient_differs():
    follows = Follows([0, 1])
    assert badge(np.ones((3, 2), np.float32), np.full((3, 2), 0.5), 3, follows).tolist() == [0, 0, 1]
    assert follows.seen[0] == pytest.approx([0, 0.5, 0.5])


def test_typical_rows_come_from_clusters_without_a_label_the_largest_first():
    """Three clusters of 5, 3 and 2 rows; that of 5 has a label."""
    x = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [10.0], [10.2], [10.3], [30.0], [30.1]], np.float32)
    known = np.arange(10) == 0
    # In the cluster of 3, row 6 is .2 and .1 from the others, row 7 is .1 and .3, and row 5 is .2 and .3.
    assert typical(x, known, 2, 0)[0] == 6
    assert typical(x, known, 2, 0)[1] in (8, 9)


def test_typical_goes_on_when_every_cluster_has_a_label():
    x = np.repeat(np.array([[0.0], [5.0]], np.float32), 3, axis=0)
    assert sorted(typical(x, np.zeros(6, bool), 6, 0).tolist()) == [0, 1, 2, 3, 4, 5]


def test_uncertain_rows_come_from_different_clusters():
    x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]], np.float32)
    uncertainty = np.array([0.9, 0.95, 0.8, 0.4, 0.5])
    assert uncertain_and_spread(x, uncertainty, 2, 0).tolist() == [1, 4]
    # Equal rows share a cluster, so the next ones are the most uncertain that remain.
    assert uncertain_and_spread(np.zeros((5, 1), np.float32), uncertainty, 3, 0).tolist() == [1, 0, 2]


def test_clusters_follow_weights():
    x = np.array([[0.0], [1.0], [2.0], [10.0]], np.float32)
    assert len(set(clusters_of(x, 2, 0)[:3])) == 1
    assert len(set(clusters_of(x, 2, 0, np.array([1, 1, 1, 0], np.float32))[:3])) == 2


@pytest.mark.parametrize("seed", range(3))
def test_uncertainty_is_that_of_scikit_activeml(seed: int):
    pool = pytest.importorskip("skactiveml.pool")
    _, _, p = drawn(seed=seed)
    margins = pool.uncertainty_scores(p, method="margin_sampling")
    assert margin_uncertainty(p) == pytest.approx(margins)
    assert entropy_uncertainty(p) == pytest.approx(pool.uncertainty_scores(p, method="entropy"))


@pytest.mark.parametrize("seed", range(3))
def test_k_center_is_that_of_scikit_activeml(seed: int):
    core_set = pytest.importorskip("skactiveml.pool").k_greedy_center
    x, labels, _ = drawn(seed=seed)
    wanted, _ = core_set(x, np.where(labels < 0, np.nan, labels), batch_size=10, random_state=0)
    assert k_center(x, labels >= 0, 10).tolist() == wanted.tolist()


def test_badge_has_the_distances_of_gradients_written_out():
    """scikit-activeml's Badge also counts the origin as a centre, other than the paper, so it cannot serve here."""
    x, _, p = drawn()
    gradients = ((p - np.eye(4)[p.argmax(axis=1)])[:, :, None] * x[:, None, :]).reshape(60, -1)
    first = int(np.square(gradients).sum(axis=1).argmax())
    follows = Follows([(first + 7) % 60, (first + 20) % 60])
    assert badge(x, p, 3, follows).tolist() == [first, (first + 7) % 60, (first + 20) % 60]
    squares = euclidean_distances(gradients, gradients[[first, (first + 7) % 60]], squared=True)
    assert follows.seen[0] == pytest.approx(squares[:, 0] / squares[:, 0].sum(), abs=1e-6)
    assert follows.seen[1] == pytest.approx(squares.min(axis=1) / squares.min(axis=1).sum(), abs=1e-6)


@pytest.mark.parametrize("rows", [2, 15, 60])
def test_typicality_is_that_of_scikit_activeml(rows: int):
    module = pytest.importorskip("skactiveml.pool._typi_clust")
    x = drawn()[0][:rows]
    assert typicality(x) == pytest.approx(module._typicality(x, np.arange(rows), 20), rel=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("count", [1, 7, 100])
def test_every_strategy_chooses_different_unlabelled_rows(strategy, count):
    x, labels, p = drawn()
    rows = next_labels(x, labels, p, count, strategy=strategy, seed=3)
    assert rows.dtype == np.int64
    assert len(rows) == len(set(rows.tolist())) == min(count, 40)
    assert (labels[rows] == -1).all()
    assert np.array_equal(rows, next_labels(x, labels, p, count, strategy=strategy, seed=3))


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one not in NEEDS_PROBABILITIES])
def test_no_label_is_needed_to_begin(strategy):
    x, labels, _ = drawn()
    assert len(next_labels(x, np.full_like(labels, -1), None, 5, strategy=strategy)) == 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_chosen_where_all_rows_are_labelled(strategy):
    x, labels, p = drawn()
    assert len(next_labels(x, np.zeros_like(labels), p, 5, strategy=strategy)) == 0


def test_auto_turns_from_typical_to_uncertain_rows():
    x, labels, p = drawn()  # 20 labels of 4 classes
    free = np.flatnonzero(labels < 0)
    uncertain = free[uncertain_and_spread(x[free], margin_uncertainty(p[free]), 5, 0)]
    assert next_labels(x, labels, p, 5).tolist() == uncertain.tolist()
    fewer = np.where(np.arange(60) < 11, labels, -1)  # 11 labels of 4 classes
    assert next_labels(x, fewer, p, 5).tolist() == typical(x, fewer >= 0, 5, 0).tolist()


def test_margin_and_entropy_begin_with_the_least_certain():
    x, labels, _ = drawn(4, 2)
    p = np.array([[0.5, 0.5, 0], [0.45, 0.45, 0.1], [0.4, 0.3, 0.3], [0.9, 0.1, 0]])
    assert next_labels(x, labels, p, 3, strategy="margin").tolist() == [1, 2, 3]
    assert next_labels(x, labels, p, 3, strategy="entropy").tolist() == [2, 1, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(3, int)}, r"must describe the same rows, got \(60, 5\), \(3,\) and \(60, 4\). Pass all"),
        ({"p": np.ones((60, 1))}, r"of 2 or more classes .* got \(60, 5\), \(60,\) and \(60, 1\)"),
        ({"count": 0}, "At least 1 row must be chosen, got 0. Raise the count."),
        ({"strategy": "best"}, "The strategy must be one of auto, random, .* got 'best'. Choose one of these."),
        ({"p": None, "strategy": "badge"}, "badge needs the probabilities of a classifier, got none. Fit one to"),
        ({"p": np.full((60, 4), np.nan)}, "must be finite, got NaN or infinity. Leave these rows out."),
    ],
)
def test_bad_input_is_refused(change, message):
    x, labels, p = drawn()
    arguments = {"x": x, "labels": labels, "p": p, "count": 3} | change
    with pytest.raises(ValueError, match=message):
        next_labels(**arguments)
