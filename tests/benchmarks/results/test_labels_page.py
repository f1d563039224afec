"""The label loop and planted errors: right shares, right orders, and tables that say what was measured."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from index_tables import labelled
from sklearn.metrics import f1_score

from frostbench.benchmarks.results.images import Source
from frostbench.benchmarks.results.labels import measured, page
from frostbench.benchmarks.results.labels.loop import AT_LEAST, Curve, chooser_of, simulate, smoothed
from frostbench.benchmarks.results.labels.measured import Measured, measure
from frostbench.benchmarks.results.labels.planted import (
    Found,
    by_cleanlab,
    damaged_labels,
    nearest_classes,
    planted_errors,
)
from frostbench.benchmarks.results.labels.pools import (
    Pool,
    PoolSource,
    macro_f1,
    probabilities,
    roles_of,
    score_of,
)
from frostbench.embedcache.index.next_labels import STRATEGIES


def pool_of(rows: int = 240, classes: int = 4, noise: float = 0.7) -> Pool:
    """Return a pool of drawn classes, and test rows of the same."""
    table = labelled(2 * rows, classes, 12, noise)
    (vectors,) = table.columns.values()
    one = np.arange(2 * rows) % 2 == 0
    part = replace(
        table,
        ids=table.ids[one],
        columns={"v": vectors[one]},
        labels=table.labels[one],
        groups=table.groups[one],
        content=table.content[one],
    )
    return Pool(part, vectors[one].astype(np.float32), vectors[~one].astype(np.float32), table.labels[~one], 0.25)


def test_the_share_needed_is_where_the_smoothed_curve_reaches_the_target():
    # Smoothed: .3, .4, .6, .8, .9; 95 % of .8 is .76, which lies .8 of the way from .6 to .8.
    curve = Curve((10, 20, 30, 40, 50), (0.2, 0.4, 0.6, 0.8, 1.0), 0.8, 100)
    assert curve.share_needed == pytest.approx(0.38)
    assert curve.score_at(0.25) == pytest.approx(0.5)
    assert Curve((10, 20), (0.9, 0.9), 0.8, 100).share_needed == 0.1
    assert Curve((10, 20), (0.1, 0.2), 0.8, 100).share_needed == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_loop_labels_in_batches_and_ends_with_enough(strategy):
    pool = pool_of()
    curve = simulate(pool, chooser_of(strategy), 0)
    assert curve.labels[:3] == (5, 10, 15)
    assert curve.labels[-1] >= AT_LEAST * 240
    assert curve.full == score_of(pool, np.arange(240))
    assert curve == simulate(pool, chooser_of(strategy), 0)


def test_a_loop_goes_on_until_its_target_is_reached():
    """Rows come class by class, so no head knows the last class before three quarters are labelled."""
    pool = pool_of()
    order = np.argsort(pool.labels, kind="stable")
    curve = simulate(pool, lambda pool, labels, p, count, seed: order[labels[order] < 0][:count], 0)
    first_of_last = int((pool.labels < 3).sum())
    assert first_of_last < curve.labels[-1]
    assert first_of_last / 240 < curve.share_needed + 5 / 240
    assert smoothed(curve.scores)[-2] >= 0.95 * curve.full


def test_macro_f1_is_that_of_scikit_learn_over_classes_with_test_rows():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 4, 50), rng.integers(0, 5, 50)
    wanted = f1_score(labels, predicted, labels=np.arange(4), average="macro")
    assert macro_f1(labels, predicted, 6) == pytest.approx(wanted)


def test_a_class_without_labels_is_never_predicted():
    pool = pool_of()
    rows = np.flatnonzero(pool.labels != 1)
    (p,) = probabilities(pool.x[rows], pool.labels[rows], pool.test_x)
    assert p.shape == (240, 3)
    assert score_of(pool, rows) < score_of(pool, np.arange(240)) * 0.8


def test_roles_are_drawn_by_group_and_the_pool_is_limited():
    table = labelled(300, 3)
    roles = roles_of(table, PoolSource(Source("toy"), most=100), 0)
    assert (roles == "pool").sum() == 100
    assert (roles == "test").sum() == 60
    other = roles_of(table, PoolSource(Source("toy"), most=100), 1)
    assert (roles != other).any()
    given = replace(table, split=np.where(np.arange(300) < 50, "test", "train"))
    stated = roles_of(given, PoolSource(Source("toy"), {"source": "given"}), 0)
    assert np.array_equal(stated == "test", np.arange(300) < 50)


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_planted_errors_are_other_classes(rate):
    pool = pool_of()
    near = nearest_classes(pool)
    assert (near != np.arange(4)).all()
    for kind in ("uniform", "near"):
        labels = damaged_labels(pool, kind, rate, np.random.default_rng(0))
        wrong = labels != pool.labels
        assert wrong.sum() == round(rate * 240)
        assert kind == "uniform" or (labels[wrong] == near[pool.labels[wrong]]).all()
        assert set(np.unique(labels)) == {0, 1, 2, 3}


def test_the_nearest_class_is_that_of_the_nearest_mean():
    pool = pool_of(noise=0.01)
    (vectors,) = pool.table.columns.values()
    means = [vectors[pool.labels == c].mean(axis=0) for c in range(4)]
    cosine = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in means] for a in means])
    np.fill_diagonal(cosine, -2)
    assert nearest_classes(pool).tolist() == cosine.argmax(axis=1).tolist()


def test_suspects_find_errors_and_correcting_them_helps():
    found = list(planted_errors(pool_of(480), 0))
    assert {(f.kind, f.rate, f.order) for f in found} == {
        (kind, rate, order) for kind in ("uniform", "near") for rate in (0.05, 0.2) for order in page.ORDERS
    }
    by_order = {f.order: f for f in found if (f.kind, f.rate) == ("uniform", 0.2)}
    assert by_order["suspects"].planted == 96
    assert by_order["suspects"].found > 80
    assert by_order["random"].found < 40
    assert by_order["suspects"].damaged < by_order["suspects"].corrected <= by_order["suspects"].clean + 0.02


def test_cleanlab_comes_first_in_its_own_order():
    find = pytest.importorskip("cleanlab.filter").find_label_issues
    rng = np.random.default_rng(0)
    labels, p = rng.integers(0, 3, 90), rng.dirichlet(np.ones(3), 90)
    order = by_cleanlab(labels, p)
    wanted = find(labels, p, return_indices_ranked_by="normalized_margin", n_jobs=1)
    assert 0 < len(wanted) < 90
    assert order[: len(wanted)].tolist() == wanted.tolist()
    assert sorted(order.tolist()) == list(range(90))


def of(name: str, needed: dict[str, tuple[float, float]]) -> Measured:
    """Return two draws of a data set whose strategies need these shares, .5 if not stated."""

    def curve(share: float) -> Curve:
        return Curve(tuple(range(1001)), tuple(float(n >= 1000 * share) for n in range(1001)), 1.0, 1000)

    curves = {s: tuple(curve(share) for share in needed.get(s, (0.5, 0.5))) for s in STRATEGIES}
    found = tuple(
        tuple(
            Found(kind, rate, order, 200, 50 + 10 * draw if order == "suspects" else 5, 0.9, 0.7, 0.8 + draw / 100)
            for kind in ("uniform", "near")
            for rate in (0.05, 0.2)
            for order in page.ORDERS
        )
        for draw in range(2)
    )
    return Measured(name, (1000, 300), 7, (0.0, 0.0), curves, found)


def test_the_page_says_what_was_measured():
    lines = list(page.page_lines([of("toy", {"auto": (0.1, 0.2), "random": (0.4, 0.5)})]))
    needed, gaps, curve = (line for line in lines if line.startswith("| toy |"))
    assert needed.startswith("| toy | 1,000 | 300 | 7 | 1.000 | **15 %** | 45 % |")
    assert gaps.startswith("| toy | **-30 [-30, -30]** |")
    # At 10 % one of two draws of auto knows all, and a hundred labels later both do.
    assert "0.500 / 0.000, +0.500" in curve
    errors = [line for line in lines if line.startswith("| toy, ")]
    assert errors[0].startswith("| toy, uniform, 5 % | **55 (28)** | 5 (2) |")
    # Gains of .1 and .11: mean .105, standard deviation .00707, so the half width is 12.706 * .005.
    assert errors[4].startswith("| toy, uniform, 5 % | 0.900 | 0.700 | **+0.105 [+0.041, +0.169]** |")
    assert errors[7].startswith("| toy, near, 20 % |")


def test_tables_have_a_line_per_draw():
    one = of("toy", {"auto": (0.1, 0.2)})
    loop = page.loop_frame([one])
    assert len(loop) == 2 * len(STRATEGIES)
    assert loop[loop["strategy"] == "auto"]["share_needed"].round(2).tolist() == [0.1, 0.2]
    errors = page.error_frame([one])
    assert len(errors) == 2 * 4 * len(page.ORDERS)
    assert set(errors.columns) >= {"images", "draw", "kind", "rate", "order", "planted", "found", "corrected"}


def test_what_was_measured_is_kept_and_written(monkeypatch, tmp_path):
    monkeypatch.setattr(page, "embedded", lambda *_: iter(["embedded"]))
    monkeypatch.setattr(measured, "pool_of", lambda work, name, draw: pool_of(noise=0.5 + draw / 10))
    lines = list(page.written(tmp_path, tmp_path, tmp_path / "out", ["coins"], 2))
    assert lines[:3] == ["embedded", "coins, draw 1 of 2 measured", "coins, draw 2 of 2 measured"]
    text = (tmp_path / "out" / "labels.md").read_text()
    assert text.startswith("# What to label next")
    assert "| coins | 240 | 240 | 4 |" in text
    assert len(pd.read_csv(tmp_path / "out" / "tables" / "labels_loop.csv")) == 2 * len(STRATEGIES)
    (again,) = measure(tmp_path, "coins", 2)
    assert isinstance(again, Measured)
    assert list(page.page_lines([again])) == lines[3:]


def test_the_page_refuses_unknown_data_sets_and_a_single_draw(tmp_path):
    with pytest.raises(ValueError, match=r"A part must be one of \['coins', .*\], got \['birds'\]. Name one of them."):
        next(page.written(tmp_path, tmp_path, tmp_path, ["birds"]))
    with pytest.raises(ValueError, match=r"An interval needs at least 2 draws, got 1. Raise --draws."):
        next(page.written(tmp_path, tmp_path, tmp_path, ["coins"], 1))
