"""Which runs are trained in one stack."""

from dataclasses import replace

import pytest
from catalogue import BASE, data, merged

from frostbench.training.engine.events import Epoch, Finished, Started
from frostbench.training.engine.fit import fit
from frostbench.training.engine.grouping import grouped
from frostbench.training.run import RunSpec

ROWS = data()


def run(*trees):
    return RunSpec.model_validate(merged(BASE, {"order_seed": 3}, *trees))


def train(**options):
    return {"train": options}


def loss(**options):
    return {"train": {"loss": options}}


TOGETHER = {
    "learning rate": [train(optim={"lr": 0.1}), train(optim={"lr": 0.2})],
    "decay": [train(optim={"weight_decay": 0.1}), train(optim={"weight_decay": 0.2})],
    "seed": [{"seed": 1}, {"seed": 2}],
    "tau": [loss(logit_adjustment={"tau": 0.5}), loss(logit_adjustment={"tau": 1})],
    "epsilon": [loss(smoothing={"epsilon": 0.1}), loss(smoothing={"epsilon": 0.2})],
    "class weights": [loss(class_weight={"kind": "inverse"}), loss(class_weight={"kind": "effective", "beta": 0.9})],
    "no class weights": [loss(class_weight={"kind": "inverse"}), {}],
    "metric": [train(early_stop={"metric": "nll"}), train(early_stop={"metric": "accuracy", "patience": 3})],
    "post-hoc": [{"posthoc": {"adjustment": {"tau": 1}}}, {"posthoc": {"calibration": {"kind": "temperature"}}}],
    "margin": [
        {"head": {"classifier": {"kind": "arcface", "margin": m, "scale": s}}} for m, s in ((0.1, 20), (0.3, 9))
    ],
    "mixup": [train(mixup={"alpha": 0.2}), train(mixup={"alpha": 0.4})],
    "average": [train(ema=0.5), train(ema=0.9)],
    "strength": [{"head": {"classifier": {"kind": "logreg", "c": c}}} for c in (0.1, 10)],
}
APART = {
    "neutral tau": [loss(logit_adjustment={"tau": 0.5}), loss(logit_adjustment={"tau": 0})],
    "neutral epsilon": [loss(smoothing={"epsilon": 0.1}), {}],
    "neutral mixup": [train(mixup={"alpha": 0.2}), {}],
    "no average": [train(ema=0.5), {}],
    "no decay": [train(optim={"weight_decay": 0.1}), train(optim={"weight_decay": 0})],
    "kind of loss": [loss(point={"kind": "focal"}), {}],
    "kind of head": [{"head": {"classifier": {"kind": "cosine"}}}, {}],
    "kind of optimiser": [train(optim={"kind": "sgd"}), {}],
    "width": [{"head": {"body": {"kind": "mlp", "hidden": [h]}}} for h in (4, 8)],
    "batch size": [train(schedule={"batch_size": 16}), train(schedule={"batch_size": 24})],
    "epochs": [train(schedule={"epochs": 2}), train(schedule={"epochs": 3})],
    "order": [{"order_seed": 3}, {"order_seed": 4}],
    "seed without an order of its own": [{"order_seed": None, "seed": 1}, {"order_seed": None, "seed": 2}],
    "scale left empty": [{"head": {"classifier": {"kind": "cosine", "scale": s}}} for s in (None, 10)],
    "columns": [{}, {"columns": ["x", "x"]}],
    "background": [{"background": ["ash"]}, {}],
    "second stage": [{"second": {"kind": "crt"}}, {}],
    "sampler": [train(sampler={"kind": "shuffled", "draw": "square_root"}), {}],
}


@pytest.mark.parametrize("trees", TOGETHER.values(), ids=TOGETHER)
def test_runs_that_differ_in_numbers_share_a_stack(trees):
    assert grouped([run(tree) for tree in trees], ROWS) == [[0, 1]]


@pytest.mark.parametrize("trees", APART.values(), ids=APART)
def test_runs_of_another_skeleton_do_not(trees):
    assert grouped([run(tree) for tree in trees], ROWS) == [[0], [1]]


def test_a_seed_that_is_also_the_order_of_another_run_goes_with_it():
    runs = [run({"seed": 3, "order_seed": None}), run({"seed": 5})]
    assert grouped(runs, ROWS) == [[0, 1]]


def test_groups_come_in_the_order_of_their_first_run_and_keep_every_run():
    cosine = {"head": {"classifier": {"kind": "cosine"}}}
    runs = [run(), run(cosine), run({"seed": 1}), run(cosine, {"seed": 1}), run({"seed": 2})]
    assert grouped(runs, ROWS) == [[0, 2, 4], [1, 3]]
    events = list(fit(runs, ROWS))
    assert [e.run for e in events if isinstance(e, Started)] == [0, 2, 4, 1, 3]
    assert [e.run for e in events if isinstance(e, Epoch)] == [0, 2, 4, 0, 2, 4, 1, 3, 1, 3]
    assert [e.run for e in events if isinstance(e, Finished)] == [0, 2, 4, 1, 3]


def test_twins_end_alike():
    (first, second) = (e.head for e in fit([run(), run()], ROWS) if isinstance(e, Finished))
    assert all((a == b).all() for a, b in zip(first.head.parameters(), second.head.parameters(), strict=True))


def test_rows_are_the_same_for_all_that_share_a_stack():
    """Synthetic rows depend on order_seed, so heads with other seeds see the same ones."""
    from frostbench.training.data.train_rows import train_rows

    over = train(oversample={"kind": "gaussian"})
    a, b, c = (train_rows(run(over, tree), ROWS) for tree in ({"seed": 1}, {"seed": 2}, {"order_seed": 4}))
    assert a.x.equal(b.x)
    assert not a.x.equal(c.x)
    assert replace(a, x=b.x, preprocess=b.preprocess).labels.equal(b.labels)
