"""VACE: its temperatures, its gradient, what it equals, and the bounds it keeps and does not keep."""

import math

import numpy as np
import pytest
import torch
from catalogue import data, trained
from scipy.optimize import minimize
from torch.nn.functional import cross_entropy, normalize

from benchmarks.settings import parse, with_changes
from heads.head import fold_temperatures
from training.engine import fit
from training.events import Finished
from training.losses.vace import Vace, batch_scatter, scatter_of
from training.run import RunSpec
from training.setting import settings_of

Z = torch.tensor(
    [[2.0, 0.5, -1.0, 0.0], [0.2, 1.5, 0.3, -0.5], [1.0, 0.0, 3.0, -2.0], [4.0, -3.0, 0.5, 1.0]], dtype=torch.float64
)
Y = torch.tensor([0, 1, 3, 0])
TAU = torch.tensor([0.5, 1, 1.25, 2], dtype=torch.float64)
X = torch.tensor([[1.0, 2], [3, 2], [0, 0], [0, 4], [2, 2], [5, 5]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1, 1, 1, 2])
COUNTS = torch.tensor([2, 3, 1])


def vace(z, tau, y=Y):
    return cross_entropy(z / tau, y, reduction="none")


def run_of(**changes):
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    quick = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0, "train.optim.lr": 0.02}
    return parse(
        RunSpec, with_changes(RunSpec().model_dump(mode="json"), quick | {"train.early_stop.metric": "last"} | dotted)
    )


def scatter(x=X):
    return scatter_of(lambda: [x], LABELS, 3)


def test_scatter_is_the_unbiased_variance_and_unknown_for_one_row():
    assert scatter().tolist()[:2] == pytest.approx([1.0, 8 / 3], abs=1e-12)
    assert math.isnan(scatter()[2])
    assert scatter_of(lambda: [X[:3], X[3:]], LABELS, 3)[:2].tolist() == pytest.approx([1.0, 8 / 3], abs=1e-12)


@pytest.mark.parametrize(
    ("strength", "center", "wanted"),
    [
        (0.5, False, [1.2727272727, 1.7272727273, 1.5]),
        (0.5, True, [0.7727272727, 1.2272727273, 1.0]),
        (1.0, False, [1.5454545455, 2.0, 2.0]),
        (1.0, True, [0.5454545455, 1.4545454545, 1.0]),
    ],
)
def test_temperatures_of_the_worked_example(strength, center, wanted):
    found = Vace(strength=strength, center=center).temperatures(scatter(), COUNTS)
    assert found.tolist() == pytest.approx(wanted, abs=1e-10)


def test_the_plain_slope_is_b_itself():
    found = Vace(strength=0.5, slope="plain", base=0.4).temperatures(scatter(), COUNTS)
    assert found.tolist() == pytest.approx([0.9, 0.4 + 4 / 3, 0.4 + 11 / 12], abs=1e-12)
    assert Vace(strength=0.1, slope="plain", base=0.3).temperatures(scatter(), COUNTS)[0] == 0.5


def test_shrinkage_draws_small_classes_to_the_mean():
    mean, found = 11 / 6, Vace(strength=1, slope="plain", base=0.01, highest=99, lowest=0.001, shrinkage=5)
    wanted = [(2 * 1 + 5 * mean) / 7, (3 * 8 / 3 + 5 * mean) / 8, mean]
    assert (found.temperatures(scatter(), COUNTS) - 0.01).tolist() == pytest.approx(wanted, abs=1e-12)


def test_without_known_scatter_every_temperature_is_the_base():
    unknown = torch.full((3,), torch.nan, dtype=torch.float64)
    assert Vace(strength=0.5, base=1.25).temperatures(unknown, COUNTS).tolist() == [1.25] * 3
    flat = torch.zeros(3, dtype=torch.float64)
    assert Vace(strength=0.5).temperatures(flat, COUNTS).tolist() == [1.0] * 3


def test_bounds_lie_on_both_sides_of_one():
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Vace(lowest=1.5)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Vace(highest=0.9)


def test_the_scale_of_the_vectors_is_irrelevant_and_that_of_one_channel_is_not():
    spec = Vace(strength=0.5)
    plain = spec.temperatures(scatter(), COUNTS)
    assert torch.allclose(spec.temperatures(scatter(X * 37), COUNTS), plain, rtol=1e-12)
    assert not torch.allclose(spec.temperatures(scatter(X * torch.tensor([37.0, 1])), COUNTS), plain, rtol=1e-2)


def test_of_unit_vectors_scatter_follows_from_the_length_of_the_mean():
    x = normalize(torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    found = scatter_of(lambda: [x], torch.zeros(50, dtype=torch.long), 1)[0] * 49 / 50
    assert float(found) == pytest.approx(float(1 - x.mean(0).square().sum()) / 8, abs=1e-12)


def test_a_running_scatter_skips_single_rows_and_starts_at_the_first_batch():
    spec, counts = Vace(rate=0.2), torch.tensor([4.0, 1, 9, 5])
    before = torch.tensor([1.0, 1.2, 1.2, torch.nan], dtype=torch.float64)
    batch = torch.tensor([2.0, 77.0, 0.5, 3.0], dtype=torch.float64)
    assert spec.moved(before, batch, counts).tolist() == pytest.approx([1.2, 1.2, 1.06, 3.0], abs=1e-12)


def test_scatter_of_a_batch_is_that_of_all_rows_where_it_holds_them():
    found, counts = batch_scatter(X, LABELS, 3, torch.arange(6))
    assert found[:2].tolist() == pytest.approx([1.0, 8 / 3], abs=1e-12)
    assert counts.tolist() == [2, 3, 1]


def test_a_row_that_is_drawn_twice_counts_once_in_a_running_scatter():
    index = torch.tensor([0, 1, 2, 3, 4, 5, 5, 2, 5, 0])
    found, counts = batch_scatter(X[index], LABELS[index], 3, index)
    assert found[:2].tolist() == pytest.approx([1.0, 8 / 3], abs=1e-12)
    assert counts.tolist() == [2, 3, 1]
    # One class has a single row, which a sampler that draws classes alike shows several times in each batch.
    run = run_of(
        train__loss__vace={"strength": 0.5, "scatter": "input_ema", "center": True},
        train__sampler__draw="class_balanced",
        head__classifier__kind="cosine",
    )
    assert finished(run, data(torch.float32)).head.head.tau[3] == 1


def test_losses_and_gradients_of_the_worked_example():
    z = Z.clone().requires_grad_()
    loss = vace(z, TAU)
    wanted = [0.05519131810407, 0.5823826749754, 3.984676984457, 0.001069665208513]
    assert loss.tolist() == pytest.approx(wanted, abs=1e-10)
    assert float(loss.detach().mean()) == pytest.approx(1.155830160686206, abs=1e-12)
    (gradient,) = torch.autograd.grad(loss.mean(), z)
    rows = [
        [-2.684795723487e-02, 7.143976826216e-03, 1.557568651074e-03, 2.166520488688e-03],
        [9.296521802314e-02, -1.103585253031e-01, 3.168789325132e-02, 1.213302486366e-02],
        [1.867799365478e-01, 1.263895780781e-02, 1.114571689464e-01, -1.226751936323e-01],
        [-5.345466603059e-04, 4.170961278372e-06, 9.998328083117e-05, 6.906163391775e-05],
    ]
    assert torch.allclose(gradient, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (TAU * gradient).sum(1).abs().max() < 1e-15
    assert gradient.sum(1).tolist() == pytest.approx([-0.01598, 0.02643, 0.18820, -0.00036], abs=1e-5)


def test_a_soft_target_of_the_worked_example():
    z = Z[:1].clone().requires_grad_()
    loss = cross_entropy(z / TAU, torch.tensor([[0.7, 0.3, 0, 0]], dtype=torch.float64))
    assert float(loss.detach()) == pytest.approx(1.1051913181040673, abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient[0].tolist() == pytest.approx([0.492608171061, -0.271424092695, 0.006230274604, 0.008666081955])


def test_losses_under_temperatures_from_own_logits():
    loss = vace(Z, torch.tensor([2.0, 1, 1, 1], dtype=torch.float64))
    wanted = [0.746567269174, 0.520653051477, 5.1298082325, 0.468594855089]
    assert loss.tolist() == pytest.approx(wanted, abs=1e-9)
    assert float(loss.mean()) == pytest.approx(1.71640585205974, abs=1e-12)


def test_its_gradient_by_finite_differences_and_its_invariances():
    assert torch.autograd.gradcheck(lambda z: vace(z, TAU), Z.clone().requires_grad_())
    assert torch.allclose(vace(Z + 3.3 * TAU, TAU), vace(Z, TAU), atol=1e-12)
    assert not torch.allclose(vace(Z + 3.3, TAU), vace(Z, TAU), atol=1e-2)
    assert torch.equal(vace(Z, torch.ones(4, dtype=torch.float64)), cross_entropy(Z, Y, reduction="none"))


def random_cases(rows=4000):
    generator = torch.Generator().manual_seed(5)
    z = 5 * torch.randn(rows, 7, generator=generator, dtype=torch.float64)
    tau = 0.5 + 1.5 * torch.rand(rows, 7, generator=generator, dtype=torch.float64)
    return z, tau, torch.randint(7, (rows,), generator=generator)


def test_bounds_that_hold():
    z, tau, y = random_cases()
    plain = cross_entropy(z, y, reduction="none")
    gain = z * (1 / tau - 1)
    assert (
        cross_entropy(z / tau, y, reduction="none") <= plain + gain.amax(1) - gain.gather(1, y[:, None])[:, 0] + 1e-9
    ).all()
    even = 1 + 2 * tau[:, :1] / tau.max()
    at_most = plain / even[:, 0] + (1 - 1 / even[:, 0]) * math.log(7)
    assert (cross_entropy(z / even, y, reduction="none") <= at_most + 1e-9).all()


@pytest.mark.parametrize(
    ("z", "tau", "found"),
    [((0.0, 5.0), (1.0, 0.5), 10.0000454), ((-10.0, -10.0), (1.0, 2.0), 5.0067153)],
)
def test_the_published_bound_does_not_hold(z, tau, found):
    """L_VACE <= L_CE + max log tau is claimed."""
    z, tau = torch.tensor([z], dtype=torch.float64), torch.tensor(tau, dtype=torch.float64)
    y = torch.tensor([0])
    assert float(vace(z, tau, y)) == pytest.approx(found, abs=1e-6)
    assert float(vace(z, tau, y)) > float(cross_entropy(z, y)) + math.log(float(tau.max())) + 1


def test_it_is_convex_in_the_logits():
    z, tau, y = random_cases()
    other = z.roll(1, 0)
    middle = cross_entropy((z + other) / 2 / tau, y, reduction="none")
    ends = cross_entropy(z / tau, y, reduction="none") + cross_entropy(other / tau, y, reduction="none")
    assert (middle <= ends / 2 + 1e-12).all()


ROWS = torch.randn(60, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
OWN = torch.randint(4, (60,), generator=torch.Generator().manual_seed(2))


def minimum(penalty, tau):
    """The least mean loss of z / tau plus sum(penalty_k |w_k|^2) / 2, and the folded weights [4, 4] there."""

    def value(flat):
        theta = torch.tensor(flat.reshape(4, 4), requires_grad=True)
        loss = cross_entropy((ROWS @ theta[:, :3].T + theta[:, 3]) / tau, OWN)
        loss = loss + (penalty[:, None] * theta[:, :3].square()).sum() / 2
        (gradient,) = torch.autograd.grad(loss, theta)
        return float(loss.detach()), gradient.numpy().ravel()

    found = minimize(value, np.zeros(16), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    return found.fun, torch.tensor(found.x.reshape(4, 4)) / tau[:, None]


def test_without_decay_a_linear_head_has_the_minimum_of_cross_entropy():
    nothing, one = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    (plain, weights), (tempered, folded) = minimum(nothing, one), minimum(nothing, TAU)
    assert tempered == pytest.approx(plain, abs=1e-9)
    inputs = torch.cat([ROWS, torch.ones(60, 1, dtype=torch.float64)], 1)
    assert torch.allclose((inputs @ weights.T).softmax(1), (inputs @ folded.T).softmax(1), atol=1e-5)


def test_with_decay_it_is_cross_entropy_whose_penalty_is_multiplied_by_tau_squared():
    one = torch.ones(4, dtype=torch.float64)
    (tempered, folded), (plain, weights) = minimum(0.1 * one, TAU), minimum(0.1 * TAU.square(), one)
    assert tempered == pytest.approx(plain, abs=1e-9)
    assert torch.allclose(folded[:, :3], weights[:, :3], atol=1e-6)
    assert not torch.allclose(folded[:, :3], minimum(0.1 * one, one)[1][:, :3], atol=1e-2)


def test_temperatures_are_folded_into_a_linear_layer():
    run = run_of()
    (setting,) = settings_of([0], [run], data(torch.float32))
    layer = torch.nn.Linear(2, 3)
    layer.weight.data = torch.tensor([[1.0, 2], [0, -1], [3, 0.5]])
    layer.bias.data = torch.tensor([0.1, 0.2, -0.3])
    setting.head.classifier = layer
    fold_temperatures(setting.head, torch.tensor([0.5, 1, 2]))
    assert torch.allclose(layer.weight, torch.tensor([[2.0, 4], [0, -1], [1.5, 0.25]]))
    assert torch.allclose(layer.bias, torch.tensor([0.2, 0.2, -0.15]))
    assert torch.allclose(layer(torch.tensor([1.0, -1])), torch.tensor([-1.8, 1.2, 1.1]))
    assert setting.head.tau is None


def finished(run, rows):
    (found,) = [event for event in fit([run], rows) if isinstance(event, Finished)]
    return found


def temperatures_of(run, rows):
    (setting,) = settings_of([0], [run], rows)
    return setting.facts.temperatures


def test_scatter_is_that_of_cached_vectors_whatever_is_standardised():
    rows = data(torch.float32)
    plain = temperatures_of(run_of(train__loss__vace__strength=0.5), rows)
    both = {"head__preprocess__center": True, "head__preprocess__std": True}
    assert torch.allclose(temperatures_of(run_of(train__loss__vace__strength=0.5, **both), rows), plain, rtol=1e-5)
    x, labels = rows.train.columns["x"].double(), rows.train.labels
    known = [x[labels == c].var(0).mean() for c in range(3)]
    mean = sum(known) / 3
    assert plain.tolist() == pytest.approx([1 + 0.5 * float(k / mean) for k in known] + [1.5], rel=1e-6)


def test_rows_that_were_made_up_have_no_part_in_scatter():
    rows, asked = data(torch.float32), {"train__loss__vace__strength": 0.5}
    made_up = temperatures_of(run_of(train__oversample__kind="gaussian", **asked), rows)
    assert torch.equal(made_up, temperatures_of(run_of(**asked), rows))


def test_frequency_takes_class_sizes_for_scatter():
    found = temperatures_of(run_of(train__loss__vace__strength=0.5, train__loss__vace__scatter="frequency"), data())
    assert found.tolist() == pytest.approx([min(2.0, 1 + 0.5 * n / 17.75) for n in (40, 20, 10, 1)])


@pytest.mark.parametrize("classifier", ["linear", "cosine", "arcface"])
def test_a_trained_head_predicts_with_its_temperatures(classifier):
    rows = data(torch.float64)
    run = run_of(head__classifier__kind=classifier, train__loss__vace__strength=0.5, train__schedule__epochs=1)
    tau = torch.ones(5, dtype=torch.float64)
    tau[:4] = temperatures_of(run, rows)
    head = finished(run, rows).head.head
    assert (head.tau is None) == (classifier == "linear")
    if classifier != "linear":
        assert torch.allclose(head.tau.double(), tau)
        undivided = head.classifier(head.hidden(rows.select.columns["x"].float()))
        assert torch.allclose(head(rows.select.columns["x"].float()), undivided / tau.float())


def test_a_step_is_that_of_cross_entropy_on_divided_logits():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    changes = {"train__schedule__epochs": 1, "train__schedule__batch_size": 75, "train__schedule__warmup": 0}
    tree = with_changes(run_of(**changes).model_dump(mode="json"), {"train.optim": {"kind": "sgd", "lr": 0.1}})
    run = parse(RunSpec, with_changes(tree, {"train.loss.vace.strength": 0.5}))
    (setting,) = settings_of([0], [run], rows)
    weight, bias = (p.detach().double().clone().requires_grad_() for p in setting.head.classifier.parameters())
    tau = temperatures_of(run, rows)
    x, y = rows.train.columns["x"], rows.train.labels
    gradients = torch.autograd.grad(cross_entropy((x @ weight.T + bias) / tau, y), (weight, bias))
    factor = run.train.schedule.factor(0.5)
    moved = [(p - 0.1 * factor * g).detach() for p, g in zip((weight, bias), gradients, strict=True)]
    found = finished(run, rows).head.head.classifier
    assert torch.allclose(found.weight.double(), moved[0] / tau[:, None], atol=1e-6)
    assert torch.allclose(found.bias.double(), moved[1] / tau, atol=1e-6)


def test_logistic_regression_ends_at_the_optimum_of_the_penalty_by_class():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    run = run_of(head__classifier__kind="logreg", head__classifier__tolerance=1e-9, train__loss__vace__strength=0.5)
    layer = finished(run, rows).head.head.classifier
    tau = temperatures_of(run, rows)
    weight, bias = layer.weight.detach().double().requires_grad_(), layer.bias.detach().double()
    x, y = rows.train.columns["x"], rows.train.labels
    penalty = (tau[:, None].square() * weight.square()).sum() / (2 * len(x))
    (gradient,) = torch.autograd.grad(cross_entropy(x @ weight.T + bias, y) + penalty, weight)
    assert gradient.abs().max() < 1e-6


@pytest.mark.parametrize("scatter", ["input_ema", "penultimate_ema"])
def test_a_running_scatter_over_whole_batches_is_the_exact_one(scatter):
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    asked = {"train__loss__vace__strength": 0.5, "train__schedule__batch_size": 75}
    exact = finished(run_of(**asked), rows).head
    running = finished(run_of(train__loss__vace__scatter=scatter, train__loss__vace__rate=1.0, **asked), rows).head
    columns = rows.select.columns
    assert torch.allclose(running.logits(columns), exact.logits(columns), atol=1e-5)


def test_own_logits_scatter_as_the_classifier_spreads_them():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    asked = {"train__loss__vace__scatter": "own_logit_ema", "train__loss__vace__rate": 1.0, "train__optim__lr": 1e-9}
    run = run_of(
        train__loss__vace__strength=0.5, train__schedule__batch_size=75, head__classifier__kind="cosine", **asked
    )
    head = finished(run, rows).head.head
    x, y = rows.train.columns["x"].float(), rows.train.labels
    own = head.classifier(head.hidden(x)).gather(1, y[:, None])[:, 0]
    variance = torch.stack([own[y == c].var() for c in range(4)]).double()
    wanted = Vace(strength=0.5).temperatures(variance, torch.tensor([40, 20, 10, 5]))
    assert head.tau[:4].tolist() == pytest.approx(wanted.tolist(), rel=1e-4)


def test_the_kept_epoch_has_the_temperatures_it_was_judged_with():
    rows = data(torch.float32)
    asked = {"train__loss__vace__strength": 0.8, "train__loss__vace__scatter": "own_logit_ema"}
    cosine = {"head__classifier__kind": "cosine", "train__schedule__epochs": 12, "train__optim__lr": 0.3}
    run = run_of(train__early_stop__metric="nll", **asked, **cosine)
    best = finished(run, rows)
    assert 0 < best.epoch < 12
    again = replace_epoch(run, best.epoch)
    assert torch.equal(finished(again, rows).head.head.tau, best.head.head.tau)


def replace_epoch(run, epoch):
    return parse(RunSpec, with_changes(run.model_dump(mode="json"), {"train.early_stop.epoch": epoch}))


def test_as_a_control_it_multiplies_the_decay_of_each_row():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    tree = {"train.optim": {"kind": "sgd", "lr": 0.1, "weight_decay": 0.5}, "train.schedule.batch_size": 75}
    base = with_changes(run_of(train__schedule__epochs=1, train__schedule__warmup=0).model_dump(mode="json"), tree)
    run = parse(RunSpec, with_changes(base, {"train.loss.vace.strength": 0.5, "train.loss.vace.acts_on": "decay"}))
    (setting,) = settings_of([0], [run], rows)
    weight = setting.head.classifier.weight.detach().double().clone().requires_grad_()
    bias, tau = setting.head.classifier.bias.detach().double(), temperatures_of(run, rows)
    x, y = rows.train.columns["x"], rows.train.labels
    (gradient,) = torch.autograd.grad(cross_entropy(x @ weight.T + bias, y), weight)
    step = 0.1 * run.train.schedule.factor(0.5)
    wanted = weight - step * (gradient + 0.5 * tau.square()[:, None] * weight)
    assert torch.allclose(finished(run, rows).head.head.classifier.weight.double(), wanted, atol=1e-6)


def test_controls_of_a_stack_each_have_their_own_decay():
    rows = data(torch.float64)
    runs = [run_of(train__loss__vace__strength=s, train__loss__vace__acts_on="decay") for s in (0.2, 0.9)]
    together, apart = trained(runs, rows), [finished(run, rows) for run in runs]
    for one, other in zip(together, apart, strict=True):
        assert torch.allclose(one.head.logits(rows.select.columns), other.head.logits(rows.select.columns), atol=1e-6)
    first, second = (event.head.logits(rows.select.columns)[:, :4] for event in apart)
    assert not torch.allclose(first, second, atol=1e-4)


def test_running_temperatures_are_logged():
    rows = data(torch.float32)
    run = run_of(train__loss__vace__strength=0.5, train__loss__vace__scatter="input_ema")
    epochs = [event for event in fit([run], rows) if hasattr(event, "best_epoch")]
    assert {tuple(event.logs) for event in epochs} == {("tau_least", "tau_mean", "tau_most")}
    assert all(0.5 <= e.logs["tau_least"] <= e.logs["tau_mean"] <= e.logs["tau_most"] <= 2 for e in epochs)


def test_logged_temperatures_are_those_of_classes_with_rows():
    run = run_of(train__loss__vace={"strength": 0.5, "scatter": "input_ema", "base": 1.4})
    epochs = [event for event in fit([run], data(torch.float32)) if hasattr(event, "best_epoch")]
    assert all(event.logs["tau_least"] > 1.4 for event in epochs)
