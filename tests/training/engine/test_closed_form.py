"""What is done to heads without gradient steps, after a first stage or alone."""

import pytest
import torch
from catalogue import BASE, MLP, data, merged
from sklearn.linear_model import LogisticRegression

from frostbench.heads.fitting_rows import Rows
from frostbench.training.engine.closed_form import POWERS, tau_normalised
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import decision_metrics
from frostbench.training.run import RunSpec

ROWS = data()
COUNTS = torch.tensor([40, 20, 10, 1, 0])


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
    """Against scikit-learn on the outputs of each head's own body."""
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


def test_a_path_of_strengths_is_solved_as_each_alone():
    cs = (0.01, 1.0, 100.0)
    # What a gradient of 1e-6 leaves open of the probabilities is more than rounding where the penalty is weak.
    solved = {"kind": "logreg", "tolerance": 1e-9}
    runs = [RunSpec.model_validate({"head": {"classifier": solved | {"c": c}}}) for c in cs]
    for together, spec in zip(ends(*runs), runs, strict=True):
        (alone,) = ends(spec)
        assert together.gradient_norm <= 1e-9
        found, wanted = (e.head.logits(ROWS.select.columns).log_softmax(1)[:, :4] for e in (together, alone))
        assert (found - wanted).abs().max() < 1e-3


def test_a_solver_that_gives_up_says_so():
    (end,) = ends(RunSpec.model_validate({"head": {"classifier": {"kind": "logreg", "max_iterations": 1}}}))
    assert end.reason == "not_converged"
    assert end.gradient_norm > 1e-6


def fitted(tree, rows):
    return [event for event in fit([RunSpec.model_validate(tree)], rows) if isinstance(event, Finished)]


def test_logistic_regression_equals_scikit_learn(long_tail):
    tree = {
        "head": {"classifier": {"kind": "logreg", "c": 0.5}, "preprocess": {"center": True, "std": True}},
    }
    (end,) = fitted(tree, long_tail)
    x = long_tail.train.columns["avg"].double()
    mean, std = x.mean(0), x.std(0, correction=0)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(
        ((x - mean) / std).numpy(), long_tail.train.labels
    )
    select = ((long_tail.select.columns["avg"] - mean) / std).numpy()
    ours = end.head.logits(long_tail.select.columns).softmax(1).numpy()
    assert ours == pytest.approx(theirs.predict_proba(select), abs=1e-4)
    assert (end.reason, end.epoch) == ("solved", 0)
    assert end.gradient_norm <= 1e-6


def test_logistic_regression_with_weights_equals_scikit_learn_with_class_weights(long_tail):
    tree = {"head": {"classifier": {"kind": "logreg"}}, "train": {"loss": {"class_weight": {"kind": "inverse"}}}}
    (end,) = fitted(tree, long_tail)
    labels = long_tail.train.labels
    counts = torch.bincount(labels).double()
    weight = (1 / counts)[labels]
    weight = weight * len(labels) / weight.sum()
    x, unit = long_tail.train.columns["avg"].double(), end.head.head.preprocess.unit.double()
    assert unit.tolist() == pytest.approx([x.var(0, correction=0).sum().sqrt().item() / (2 * 8**0.5)] * 8)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000).fit((x / unit).numpy(), labels, sample_weight=weight)
    ours = end.head.logits(long_tail.select.columns).softmax(1).numpy()
    judged = (long_tail.select.columns["avg"].double() / unit).numpy()
    assert ours == pytest.approx(theirs.predict_proba(judged), abs=1e-4)


class TestTauNorm:
    def test_the_vectors(self):
        """Kang et al., ICLR 2020, section 4.2; a row of zeros stays."""
        weight = torch.tensor([[3.0, 4], [0.6, 0.8], [0, 0.5], [0, 0]], dtype=torch.float64)
        half = [[1.3416407864998738, 1.7888543819998317], [0.6, 0.8], [0, 0.7071067811865475], [0, 0]]
        assert tau_normalised(weight, 0.0).tolist() == weight.tolist()
        assert tau_normalised(weight, 0.5).flatten().tolist() == pytest.approx([v for row in half for v in row])
        whole = [0.6, 0.8, 0.6, 0.8, 0, 1, 0, 0]
        assert tau_normalised(weight, 1.0).flatten().tolist() == pytest.approx(whole)

    @pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
    def test_weights_are_divided_by_a_power_of_their_length_and_biases_go(self, tau):
        (plain,), (end,) = ends(run()), ends(run({"second": {"kind": "tau_norm", "tau": tau}}))
        weight = state(plain)["classifier.weight"].double()
        wanted = weight / weight.norm(dim=1, keepdim=True) ** tau
        assert torch.allclose(state(end)["classifier.weight"].double(), wanted, rtol=1e-5, atol=1e-6)
        assert (state(end)["classifier.bias"] == 0).all()
        assert end.head.priors.implied.tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 0])

    @pytest.mark.parametrize("metric", ["balanced_accuracy", "last"])
    def test_the_power_is_that_of_lowest_nll_among_the_best_on_the_selection_rows(self, metric):
        stop = {"train": {"early_stop": {"metric": metric}}}
        (plain,), (end,) = ends(run(stop)), ends(run(stop, {"second": {"kind": "tau_norm"}}))
        weight, x = state(plain)["classifier.weight"].double(), hidden(plain, ROWS.select).double()
        known = ROWS.select.labels < 4
        values = []
        for power in POWERS:
            logits = (x @ (weight / weight.norm(dim=1, keepdim=True) ** power).T)[:, :4]
            found = decision_metrics(ROWS.select.labels, logits.argmax(1), COUNTS)
            nll = torch.nn.functional.cross_entropy(logits[known], ROWS.select.labels[known])
            values.append((round(found["macro_f1_fg" if metric == "last" else metric], 9), -nll.item()))
        best = POWERS[values.index(max(values))]
        wanted = weight / weight.norm(dim=1, keepdim=True) ** best
        assert torch.allclose(state(end)["classifier.weight"].double(), wanted, rtol=1e-5, atol=1e-6)

    def test_a_stop_between_the_stages_leaves_the_first(self):
        spec = run({"second": {"kind": "tau_norm"}})
        asked = []

        def stop():
            asked.append(1)
            return len(asked) >= 2

        events = list(fit([spec], ROWS, stop))
        assert len([e for e in events if isinstance(e, Epoch)]) == 2
        assert events[-1].reason == "stopped"
        assert (events[-1].head.head.state_dict()["classifier.bias"] != 0).any()


def test_a_refit_by_logistic_regression_takes_the_place_of_a_classifier_that_is_not_linear():
    second = {"second": {"kind": "refit", "classifier": {"kind": "logreg"}}}
    (refit,) = ends(run({"head": {"classifier": {"kind": "cosine"}}}, second))
    assert refit.reason == "solved"
    assert set(state(refit)) >= {"classifier.weight", "classifier.bias"}
    assert state(refit)["classifier.weight"].ndim == 2
