"""Refit: a classifier without gradient steps on the frozen body."""

import pytest
import torch
from catalogue import BASE, MLP, data, merged
from sklearn.linear_model import LogisticRegression

from frostbench.heads.fitting_rows import Rows
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

ROWS = data()


def run(*trees):
    return RunSpec.model_validate(merged(BASE, MLP, {"order_seed": 3}, *trees))


def ends(*runs):
    found = {event.run: event for event in fit(runs, ROWS) if isinstance(event, Finished)}
    return [found[place] for place in range(len(runs))]


def state(end):
    return end.head.head.state_dict()


def hidden(end, part=ROWS.train):
    with torch.no_grad():
        return end.head.head.hidden(part.columns["x"])


@pytest.mark.parametrize("kind", ["ncm", "ridge", "lda", "mahalanobis", "knn", "logreg"])
def test_a_refit_puts_another_classifier_on_the_body_of_the_kept_epoch(kind):
    plain, refit = ends(run()), ends(run({"second": {"kind": "refit", "classifier": {"kind": kind}}}))
    (plain,), (refit,) = plain, refit
    body = [name for name in state(plain) if name.startswith("body.")]
    assert all(torch.equal(state(plain)[name], state(refit)[name]) for name in body)
    assert refit.epoch == plain.epoch
    assert refit.reason == "solved"
    assert (refit.head.logits(ROWS.select.columns)[:, 4] == -torch.inf).all()


def test_a_refit_is_the_fit_to_the_outputs_of_the_body():
    second = run({"second": {"kind": "refit", "classifier": {"kind": "ncm"}}}).second
    (end,) = ends(run({"second": second}))
    rows = Rows(hidden(end), ROWS.train.labels, torch.ones(71, dtype=torch.float64), 5)
    wanted = second.classifier.fit(rows)(hidden(end, ROWS.select))
    found = end.head.logits(ROWS.select.columns)
    assert torch.allclose(found[:, :4], wanted[:, :4], rtol=1e-4, atol=1e-4)


def test_every_head_of_a_stack_is_refitted_with_its_own_numbers():
    """Compared with scikit-learn on the outputs of each head's own body."""
    cs = (0.05, 1.0, 20.0)
    runs = [
        run({"seed": k, "second": {"kind": "refit", "classifier": {"kind": "logreg", "c": c}}})
        for k, c in enumerate(cs)
    ]
    for c, end in zip(cs, ends(*runs), strict=True):
        theirs = LogisticRegression(C=c, tol=1e-10, max_iter=20_000)
        theirs.fit(hidden(end).double().numpy(), ROWS.train.labels)
        wanted = theirs.predict_proba(hidden(end, ROWS.select).double().numpy())
        found = end.head.logits(ROWS.select.columns).softmax(1)
        assert found[:, :4].detach().numpy() == pytest.approx(wanted, abs=1e-3)


def test_a_refit_by_logistic_regression_takes_the_place_of_a_classifier_that_is_not_linear():
    second = {"second": {"kind": "refit", "classifier": {"kind": "logreg"}}}
    (refit,) = ends(run({"head": {"classifier": {"kind": "cosine"}}}, second))
    assert refit.reason == "solved"
    assert set(state(refit)) >= {"classifier.weight", "classifier.bias"}
    assert state(refit)["classifier.weight"].ndim == 2
