import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge as Sklearn
from sklearn.linear_model import RidgeCV

from frostbench.heads.closed_form.eigen import eigenbasis
from frostbench.heads.closed_form.ridge import GRID, Ridge, leave_one_out, signs
from frostbench.heads.fitting_rows import Rows


def rows_of(x, labels, classes, weighted=True):
    draw = torch.Generator().manual_seed(1)
    weight = torch.rand(len(x), generator=draw, dtype=torch.float64) + 0.2 if weighted else torch.ones(len(x)).double()
    return Rows(x, labels, weight / weight.mean(), classes)


def digits(rows=300, weighted=True):
    x, y = load_digits(return_X_y=True)
    return rows_of(torch.tensor(x[:rows] / 16), torch.tensor(y[:rows]), 10, weighted)


def wide(rows=30, dim=80):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(rows, dim, generator=draw, dtype=torch.float64) * torch.logspace(0, -2, dim).double() + 3
    return rows_of(x, torch.arange(rows) % 3, 3)


def alpha_of(rows, strength):
    """Scikit-learn's alpha for a summed squared error: N times the strength times the mean weighted variance."""
    x, w = rows.x.numpy(), rows.weight.numpy()
    variance = np.average((x - np.average(x, axis=0, weights=w)) ** 2, axis=0, weights=w).mean()
    return len(x) * strength * variance


@pytest.mark.parametrize("strength", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("rows", [digits(), digits(weighted=False), wide()], ids=["weighted", "equal", "wide"])
def test_it_equals_scikit_learn(rows, strength):
    layer = Ridge(rule="fixed", strength=strength).fit(rows)
    theirs = Sklearn(alpha=alpha_of(rows, strength), solver="svd" if len(rows.x) > 100 else "cholesky")
    theirs.fit(rows.x.numpy(), signs(rows).numpy(), sample_weight=rows.weight.numpy())
    ours = layer(rows.x.float()).detach().numpy()
    assert ours == pytest.approx(theirs.predict(rows.x.numpy()), abs=2e-5)


def test_leave_one_out_errors_are_those_of_fits_without_the_row():
    rows = wide()
    errors = leave_one_out(eigenbasis(rows.x, rows.weight), rows, signs(rows))
    x, targets, w = rows.x.numpy(), signs(rows).numpy(), rows.weight.numpy()
    for place in (12, 24):
        each = []
        for i in range(len(x)):
            rest = np.arange(len(x)) != i
            fit = Sklearn(alpha=alpha_of(rows, GRID[place])).fit(x[rest], targets[rest], sample_weight=w[rest])
            each.append(((targets[i] - fit.predict(x[i : i + 1])[0]) ** 2).mean())
        assert errors[place].item() == pytest.approx(np.average(each, weights=w), rel=1e-8)


@pytest.mark.parametrize("rows", [digits(), wide()], ids=["tall", "wide"])
def test_the_lowest_error_agrees_with_scikit_learn(rows):
    errors = leave_one_out(eigenbasis(rows.x, rows.weight), rows, signs(rows))[8:33]
    alphas = [alpha_of(rows, s) for s in GRID[8:33]]
    theirs = RidgeCV(alphas=alphas).fit(rows.x.numpy(), signs(rows).numpy(), sample_weight=rows.weight.numpy())
    assert alphas[int(errors.argmin())] == pytest.approx(theirs.alpha_)
    assert errors.min().item() == pytest.approx(-theirs.best_score_, rel=1e-6)


def test_the_rule_takes_the_strength_of_least_error():
    rows = digits()
    best = GRID[int(leave_one_out(eigenbasis(rows.x, rows.weight), rows, signs(rows)).argmin())]
    chosen, given = Ridge().fit(rows), Ridge(rule="fixed", strength=best).fit(rows)
    assert GRID[0] < best < GRID[-1]
    assert torch.equal(chosen.weight, given.weight)


def test_weight_two_is_the_row_twice():
    rows = digits(weighted=False)
    twice = torch.cat([torch.arange(300), torch.arange(50)])
    heavy = torch.cat([torch.full((50,), 2.0), torch.ones(250)]).double()
    one = Ridge(rule="fixed").fit(Rows(rows.x, rows.labels, heavy / heavy.mean(), 10))
    other = Ridge(rule="fixed").fit(Rows(rows.x[twice], rows.labels[twice], torch.ones(350).double(), 10))
    assert torch.allclose(one.weight, other.weight, atol=1e-6)


@pytest.mark.parametrize("rule", ["fixed", "leave_one_out"])
def test_few_rows_constant_features_and_absent_classes(rule):
    x = torch.tensor([[5.0, 0.0, 1.0, 0.0], [5.0, 1.0, 0.0, 0.0], [5.0, 0.9, 0.1, 0.0]])
    rows = Rows(x, torch.tensor([0, 2, 2]), torch.ones(3).double(), 4)
    logits = Ridge(rule=rule).fit(rows)(x)
    assert torch.isfinite(logits).all()
    assert logits[:, [0, 2]].argmax(1).tolist() == [0, 1, 1]
    assert torch.allclose(logits[:, [1, 3]], torch.tensor(-1.0))


def test_constant_features_score_the_share_of_the_class():
    rows = Rows(torch.ones(4, 2), torch.tensor([0, 0, 0, 1]), torch.ones(4).double(), 2)
    assert torch.allclose(Ridge().fit(rows)(rows.x), torch.tensor([0.5, -0.5]))


def test_the_prior_in_the_scores_is_that_of_the_rows_and_a_blank_takes_the_state():
    prior = torch.tensor([0.7, 0.3]).log()
    assert torch.equal(Ridge().carried(prior), prior)
    layer = Ridge().fit(digits())
    state = layer.state_dict()
    blank = Ridge().blank(64, 10, {name: value.shape for name, value in state.items()})
    blank.load_state_dict(state)
    assert torch.equal(blank(digits().x.float()), layer(digits().x.float()))


def test_no_number_is_swept_since_each_head_is_fitted_by_itself():
    assert not any(field.json_schema_extra for field in Ridge.model_fields.values())
