"""Presets beside scikit-learn's classifiers: same rows, right columns, and tables that say who is best."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifierCV

from frostbench.benchmarks.results.defaults.cuts import cut
from frostbench.benchmarks.results.five_liners import page
from frostbench.benchmarks.results.five_liners.fitting import (
    PEERS,
    PRESETS,
    SMALLEST_P,
    Fit,
    _kept,
    fitted,
    takes_too_long,
)
from frostbench.benchmarks.results.tables import Table


def toy(draw: int = 0) -> Table:
    rng, labels = np.random.default_rng(draw), np.repeat(np.arange(3), 60)
    return Table((2 * np.eye(3, 8)[labels] + rng.normal(size=(180, 8))).astype(np.float32), labels)


def fit_of(method: str, draw: int = 0) -> Fit:
    return Fit(method, toy(draw), "toy", cut(toy(draw), draw), draw)


def test_a_peer_is_fitted_to_all_rows_but_the_test_rows():
    fit = fit_of("LDA")
    kept = fit.roles != "test"
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(fit.table.x[kept], fit.table.labels[kept])
    wanted = np.maximum(model.predict_proba(fit.table.x[~kept]), SMALLEST_P)
    assert fitted(fit) == pytest.approx(wanted / wanted.sum(1, keepdims=True))


def test_classes_without_training_rows_keep_their_column():
    fit = fit_of("ridge")
    roles = np.where(fit.table.labels == 1, "test", fit.roles)
    p = fitted(fit._replace(roles=roles))
    assert p.shape == ((roles == "test").sum(), 3)
    assert (p[:, 1] < 1e-5).all()
    assert p.sum(1) == pytest.approx(1)


def test_a_classifier_without_probabilities_predicts_one_class():
    p = fitted(fit_of("RidgeClassifierCV"))
    assert set(np.unique(p > 0.9)) == {True, False}
    assert isinstance(PEERS["RidgeClassifierCV"]()[-1], RidgeClassifierCV)


def test_fits_are_kept(tmp_path):
    first = _kept(fit_of("LDA"), tmp_path)
    (path,) = tmp_path.iterdir()
    np.save(path, first + 1)
    assert np.array_equal(_kept(fit_of("LDA"), tmp_path), first + 1)


def test_tables_name_the_best_and_the_difference(monkeypatch, tmp_path):
    """Every method says the truth with a probability of its own."""
    sure = dict(zip((*PRESETS, *PEERS), np.linspace(0.9, 0.5, len(PRESETS) + len(PEERS)), strict=True))

    def answer(fits, folder):
        truths = [np.eye(3)[fit.table.labels[fit.roles == "test"]] for fit in fits]
        return [
            sure[fit.method] * t + (1 - sure[fit.method]) / 2 * (1 - t) for fit, t in zip(fits, truths, strict=True)
        ]

    monkeypatch.setattr(page, "all_fitted", answer)
    lines = list(page.beside_five_liners({"toy": toy}, 2, tmp_path))
    macro, nll, against = (line for line in lines if line.startswith("| toy"))
    assert macro.count("**1.000**") == 2
    assert nll.startswith(f"| toy | **{-np.log(0.9):.3f}** |")
    gain = -np.log(0.9) + np.log(sure["HistGB"])
    assert against.endswith(f"+0.000 [+0.000, +0.000] / **{gain:+.3f} [{gain:+.3f}, {gain:+.3f}]** |")
    (auto,) = (line for line in lines if line.startswith("| auto | "))
    # The best peer has the probability .9 - 7 * .4 / 12 = .667.
    assert auto == f"| auto | +0.000 | {-np.log(0.9) + np.log(sure['LogisticRegressionCV']):+.3f} |"


def test_slow_classifiers_are_left_out_on_large_tables(monkeypatch, tmp_path):
    large = Table(np.zeros((500_001, 1), np.float32), np.arange(500_001) % 2)
    assert [m for m in (*PRESETS, *PEERS) if takes_too_long(m, large)] == ["LogisticRegressionCV", "SVC", "HistGB"]
    assert not takes_too_long("SVC", Table(large.x[1:], large.labels[1:]))
    monkeypatch.setattr(page, "takes_too_long", lambda method, table: method == "SVC")
    monkeypatch.setattr(page, "all_fitted", lambda fits, folder: [np.full((27, 3), 1 / 3) for _ in fits])
    cells = [line.split("|") for line in page.beside_five_liners({"toy": toy}, 2, tmp_path) if line.startswith("| toy")]
    own = [line[2 + len(PRESETS) : -1] if len(line) > 10 else line[2:-1] for line in cells]
    assert [[not cell.strip() for cell in line].index(True) for line in own[::2]] == [list(PEERS).index("SVC")] * 2


def test_the_page_refuses_unknown_tables_and_a_single_draw(tmp_path):
    with pytest.raises(ValueError, match=r"A part must be one of .*'digits'.*, got \['coins'\]. For parts with images"):
        next(page.written(None, tmp_path, tmp_path, ["coins"]))
    with pytest.raises(ValueError, match=r"An interval needs at least 2 draws, got 1. Raise --draws."):
        next(page.written(None, tmp_path, tmp_path, ["digits"], 1))
