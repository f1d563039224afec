"""The effects of a stage's options on heads, and what they must not change."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.training.data.part import Part
from frostbench.training.data.randomness import generator
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.losses.supcon import SupCon
from frostbench.training.metrics.classification import decision_metrics
from frostbench.training.run import RunSpec

MLP = {
    "head": {"preprocess": {"center": True, "std": True}, "body": {"kind": "mlp", "hidden": [16, 8]}},
    "train": {"optim": {"kind": "adamw", "lr": 0.01}, "schedule": {"epochs": 8, "min_steps": 0, "batch_size": 32}},
}
COUNTS = torch.tensor([120, 40, 15, 5])
AUGMENT = {"augment": {"noise": 0.3, "channel_scale": 0.1, "gain": 0.2}}
MIXUP = {"mixup": {"alpha": 1, "where": "hidden"}}
SUPCON = {"loss": {"supcon": {"weight": 1, "projector": {"kind": "mlp", "hidden": 12, "width": 6}}}}


def run(train=None, **changes):
    return RunSpec.model_validate(MLP | changes | {"train": MLP["train"] | (train or {})})


def finished(data, *runs):
    return [e for e in fit(runs, data) if isinstance(e, Finished)]


def in_float64(data):
    parts = {role: getattr(data, role) for role in ("train", "select", "calibrate")}
    exact = {role: Part({"avg": part.columns["avg"].double()}, part.labels) for role, part in parts.items()}
    return replace(data, **exact)


def state(end):
    return end.head.head.state_dict()


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def plain_network(seed):
    """Return a torch MLP of widths 8, 16, 8 and 4 classes with the initial weights of a seed, in float64."""
    start = generator(seed, "start", 0)
    layers = [torch.nn.Linear(a, b) for a, b in ((8, 16), (16, 8), (8, 4))]
    with torch.no_grad():
        for layer in layers:
            for parameter in (layer.weight, layer.bias):
                bound = layer.in_features**-0.5
                parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=start))
    norms = [torch.nn.LayerNorm(16), torch.nn.LayerNorm(8)]
    return torch.nn.ModuleList([*layers, *norms]).double()


def test_a_neutral_run_is_the_plain_loop(long_tail):
    """The loop written with torch's layers and optimiser; any additional random draw would change the numbers."""
    spec = run({"early_stop": {"metric": "last"}})
    (end,) = finished(in_float64(long_tail), spec)
    x, labels = long_tail.train.columns["avg"].double(), long_tail.train.labels
    x = (x - x.mean(0)) / x.std(0, correction=0)
    order, noise = generator(0, "order", 1), generator(0, "noise", 1)
    first, second, last, *norms = network = plain_network(0)
    matrices, vectors = ([p for p in network.parameters() if (p.ndim > 1) == wide] for wide in (True, False))
    optimiser = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0}])
    steps, done = 8 * 6, 0
    for _ in range(8):
        for rows in torch.randperm(180, generator=order).split(32):
            kept = [torch.empty(len(rows), w).double().bernoulli_(0.8, generator=noise) / 0.8 for w in (16, 8)]
            hidden = x[rows]
            for layer, norm, mask in zip((first, second), norms, kept, strict=True):
                hidden = torch.nn.functional.gelu(norm(layer(hidden))) * mask
            loss = cross_entropy(last(hidden), labels[rows])
            done += 1
            for group in optimiser.param_groups:
                group["lr"] = 0.01 * factor((done - 0.5) / steps)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    wanted = [p.detach() for layer in (first, second, *norms, last) for p in layer.parameters()]
    found = list(end.head.head.parameters())
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours, theirs.float(), rtol=1e-6, atol=1e-7)


def factor(progress):
    """Return the factor of a warm-up over the first twentieth, followed by a cosine to 0."""
    return progress / 0.05 if progress < 0.05 else 0.5 * (1 + math.cos(math.pi * (progress - 0.05) / 0.95))


@pytest.mark.parametrize(
    "train",
    [
        {"mixup": {"alpha": 0, "where": "hidden"}},
        {"loss": {"supcon": {"weight": 0, "temperature": 1, "projector": {"kind": "mlp"}}}},
        {"augment": {"noise": 0, "channel_scale": 0, "gain": 0}},
    ],
)
def test_neutral_values_give_the_plain_head_bit_for_bit(long_tail, train):
    plain, neutral = finished(long_tail, run(), run(train))
    assert same(state(plain), state(neutral))


@pytest.mark.parametrize("train", [AUGMENT, MIXUP, {"mixup": {"alpha": 0.2}}, SUPCON], ids=str)
def test_an_option_moves_the_head_and_only_its_numbers(long_tail, train):
    plain, moved, again = finished(long_tail, run(), run(train), run(train))
    assert not torch.equal(state(plain)["body.linears.0.weight"], state(moved)["body.linears.0.weight"])
    assert same(state(moved), state(again))
    assert state(moved).keys() == state(plain).keys()
    assert all(torch.equal(state(moved)[f"preprocess.{n}"], state(plain)[f"preprocess.{n}"]) for n in ("mean", "scale"))
    assert moved.head.priors.implied.tolist() == plain.head.priors.implied.tolist()


@pytest.mark.parametrize("train", [AUGMENT, MIXUP, SUPCON, AUGMENT | MIXUP | SUPCON], ids=str)
def test_evaluation_uses_unaugmented_rows(long_tail, train):
    events = list(fit([run(train)], long_tail))
    kept = events[-1]
    reported = next(e.metrics for e in events if isinstance(e, Epoch) and e.epoch == kept.epoch)
    predicted = kept.head.logits(long_tail.select.columns).argmax(1)
    found = decision_metrics(long_tail.select.labels, predicted, COUNTS)
    assert {name: reported[name] for name in found} == pytest.approx(found, abs=1e-12)


def test_training_leaves_the_rows_and_the_global_random_state_alone(long_tail):
    before, random = long_tail.train.columns["avg"].clone(), torch.get_rng_state()
    finished(long_tail, run(AUGMENT | MIXUP | SUPCON))
    assert torch.equal(long_tail.train.columns["avg"], before)
    assert torch.equal(torch.get_rng_state(), random)


def test_all_options_together_stay_finite(long_tail):
    loss = SUPCON["loss"] | {
        "smoothing": {"epsilon": 0.1, "spread": "prior"},
        "class_weight": {"kind": "effective"},
        "logit_adjustment": {"tau": 0.5},
        "hardmine": {"keep": 0.5},
    }
    (end,) = finished(long_tail, run(AUGMENT | MIXUP | {"loss": loss}, second={"kind": "crt"}))
    assert end.reason in ("all_epochs", "early_stop")
    assert end.head.logits(long_tail.select.columns).isfinite().all()


@pytest.mark.parametrize("mixup", [0.0, 1.0])
def test_the_contrast_is_added_to_the_mean_and_sees_unmixed_rows(long_tail, mixup):
    """One step of almost zero length, with different coefficients and the same draws."""
    still = {
        "optim": {"kind": "adamw", "lr": 1e-12},
        "schedule": {"epochs": 1, "min_steps": 0, "batch_size": 512},
        "mixup": {"alpha": mixup, "where": "hidden"},
    }
    body = {"head": {"body": {"kind": "mlp", "hidden": [16, 8], "dropout": 0}}}
    losses = []
    for weight in (1, 3):
        _, epoch, end = fit([run(still | {"loss": {"supcon": {"weight": weight}}}, **body)], long_tail)
        losses.append(epoch.loss)
    x, labels = long_tail.train.columns["avg"], long_tail.train.labels
    with torch.no_grad():
        contrast = SupCon()(end.head.head.hidden(x), labels, torch.ones(4)).item()
        mean = cross_entropy(end.head.head(x), labels).item()
    assert losses[1] - losses[0] == pytest.approx(2 * contrast, rel=1e-4)
    assert (losses[0] - contrast == pytest.approx(mean, rel=1e-4)) == (mixup == 0)


def test_mixing_the_input_of_a_linear_head_equals_mixing_its_hidden_layer(long_tail):
    linear = {"head": {"body": {"kind": "identity"}}}
    a, b = finished(
        long_tail,
        run({"mixup": {"alpha": 0.2, "where": "input"}}, **linear),
        run({"mixup": {"alpha": 0.2, "where": "hidden"}}, **linear),
    )
    assert same(state(a), state(b))


@pytest.mark.parametrize("projector", ["none", "mlp"])
def test_supcon_lowers_the_contrast_of_the_hidden_rows(long_tail, projector):
    supcon = SupCon.model_validate({"weight": 1, "projector": {"kind": projector}})
    contrast = []
    for loss in ({}, {"supcon": supcon}):
        (end,) = finished(long_tail, run({"loss": loss, "early_stop": {"metric": "nll"}}))
        with torch.no_grad():
            hidden = end.head.head.hidden(long_tail.train.columns["avg"])
        contrast.append(supcon(hidden, long_tail.train.labels, torch.ones(4)).item())
    assert contrast[1] < contrast[0] - 0.1


@pytest.mark.parametrize(
    "late",
    [
        {"class_weight": {"kind": "inverse"}, "weight_schedule": {"kind": "deferred", "start": 0.5}},
        {"class_weight": {"kind": "inverse"}, "weight_schedule": {"kind": "ramp", "start": 0.5, "end": 0.6}},
        {"hardmine": {"keep": 0.25, "warm": 0.5, "quota": 0}},
    ],
    ids=["deferred", "ramp", "hardmine"],
)
def test_late_schedules_leave_the_first_half_of_training_alone(long_tail, late):
    plain, moved = (
        [e.loss for e in fit([run({"loss": loss})], long_tail) if isinstance(e, Epoch)] for loss in ({}, late)
    )
    assert len(plain) == len(moved) == 8
    assert moved[:4] == plain[:4]
    assert all(abs(a - b) > 1e-4 for a, b in zip(moved[5:], plain[5:], strict=True))
