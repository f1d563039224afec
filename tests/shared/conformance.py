"""What holds of every head and every loss; tests/test_every_head.py and tests/test_every_loss.py ask it of each."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from catalogue import CASES, DIM, NAMES, data, merged, trained
from torch import Tensor, nn

from frostbench.heads.bundle.export import load, save
from frostbench.heads.head import Closed
from frostbench.heads.spec import numbers, with_numbers
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit, never
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stage_loop import Ended, run_stage
from frostbench.training.engine.stages import Stage, first_stage
from frostbench.training.losses.class_weights import EffectiveWeight, NoWeight
from frostbench.training.losses.fedlas import Gate
from frostbench.training.run import RunSpec

ROWS = data(torch.float32)
PERMUTED = torch.tensor([2, 4, 0, 3, 1])
"""Class c becomes class PERMUTED[c]."""
METRICS = ({"metric": "last"}, {"metric": "nll", "patience": 1}, {"metric": "accuracy", "patience": 2})
IN_ORDER_OF_CLASSES = ("train.sampler", "train.oversample", "everything", "standardised")
"""Cases that draw rows class after class, so that other numbers fall to a class whose place is another."""


@functools.cache
def of(name: str) -> tuple[Finished, tuple[float, ...]]:
    """How the run of a case ended on ROWS, and the losses of its epochs."""
    events = list(fit([CASES[name]], ROWS))
    (end,) = [event for event in events if isinstance(event, Finished)]
    return end, tuple(event.loss for event in events if isinstance(event, Epoch))


def three(run: RunSpec) -> list[RunSpec]:
    """A run, and two that differ from it in seed, every swept number, class weights, metric and patience."""
    return [_moved(run, place) for place in range(3)]


def _moved(run: RunSpec, place: int) -> RunSpec:
    share, lr = (1.0, 0.9, 0.8)[place], (1.0, 3.0, 0.5)[place]
    weight = (run.train.loss.class_weight, NoWeight(), EffectiveWeight(beta=0.9))[place]
    told = {path: (lr if path.endswith(".lr") else share) * number for path, number in numbers(run).items()}
    loss = run.train.loss.model_copy(update={"class_weight": weight})
    early = run.train.early_stop.model_validate(METRICS[place])
    train = run.train.model_copy(update={"loss": loss, "early_stop": early})
    changed = run.model_copy(update={"train": train, "seed": place, "order_seed": 5})
    return RunSpec.model_validate(with_numbers(changed, told).model_dump())


def is_stepped(name: str) -> bool:
    """Whether a case takes gradient steps."""
    return not isinstance(CASES[name].head.classifier, Closed)


def check_shapes_and_absent_classes(name: str) -> None:
    """One logit a class; the class without rows has none and the probability 0, and losses are finite."""
    end, losses = of(name)
    logits, log_p = end.head.logits(ROWS.select.columns), end.head.log_probabilities(ROWS.select.columns)
    assert logits.shape == log_p.shape == (26, 5)
    assert logits.dtype == torch.float32
    assert logits[:, :4].isfinite().all()
    assert (log_p[:, 4] == -torch.inf).all()
    assert log_p.exp().sum(1).tolist() == pytest.approx([1] * 26, abs=1e-5)
    assert 4 not in logits.argmax(1)
    assert torch.tensor(losses).isfinite().all()
    assert bool(losses) == is_stepped(name)
    assert end.head.priors.implied.sum().item() == pytest.approx(1)


def check_the_same_twice(name: str) -> None:
    """Bit for bit, whatever the state of torch's global generator, which is left alone."""
    end, losses = of(name)
    torch.manual_seed(len(name))
    before = torch.get_rng_state()
    events = list(fit([CASES[name]], ROWS))
    assert torch.equal(before, torch.get_rng_state())
    assert tuple(event.loss for event in events if isinstance(event, Epoch)) == losses
    found, wanted = events[-1].head.head.state_dict(), end.head.head.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def check_round_trips(name: str, folder: Path) -> None:
    """A run through JSON, and a head through a bundle, predicts the same under any prior."""
    spec, head = CASES[name], of(name)[0].head
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec
    save(head, folder / "bundle")
    again = load(folder / "bundle").head
    assert again.spec == head.spec
    assert torch.equal(again.logits(ROWS.select.columns), head.logits(ROWS.select.columns))
    prior = head.uniform_prior()
    found = again.log_probabilities(ROWS.select.columns, prior)
    assert torch.equal(found, head.log_probabilities(ROWS.select.columns, prior))


def check_vectors_that_are_not_finite(name: str) -> None:
    """They are refused by the row that they are in, before anything is trained."""
    column = (CASES[name].columns or ("x",))[0]
    columns = {key: x.clone() for key, x in ROWS.train.columns.items()}
    columns[column][3, 1] = torch.nan
    spoiled = replace(ROWS, train=replace(ROWS.train, columns=columns))
    with pytest.raises(ValueError, match=rf"1 train rows of column {column} hold NaN or infinity, the first in row 3"):
        next(fit([CASES[name]], spoiled))


def with_features(rows: Data, change: Callable[[Tensor], Tensor]) -> Data:
    """Data with other training and selection features."""
    parts = {}
    for role in ("train", "select", "calibrate"):
        part = getattr(rows, role)
        parts[role] = Part({key: change(x) for key, x in part.columns.items()}, part.labels, part.groups)
    return replace(rows, **parts)


TINY = data(torch.float32, (4, 1))
"""Two classes of 4 rows and 1, in more dimensions than there are rows."""
CONSTANT = with_features(data(torch.float32, (9, 6, 4)), torch.ones_like)
EMPTY = with_features(data(torch.float32, (9, 6, 4)), torch.zeros_like)
HARD = {"tiny": TINY, "constant": CONSTANT, "zero": EMPTY}


def check_hard_data(name: str, rows: Data) -> None:
    """Predictions stay finite where there is little to learn from, or nothing."""
    short = {"train": {"schedule": {"epochs": 1}}}
    (end,) = trained([RunSpec.model_validate(merged(CASES[name].model_dump(), short))], rows)
    logits = end.head.logits(rows.select.columns)
    assert logits.shape == (len(rows.select), len(rows.class_names))
    assert logits.isfinite().all()


def blobs() -> Data:
    """Five classes far apart from each other, in all directions, of 12 rows each."""
    generator = torch.Generator().manual_seed(1)
    centres = 4 * torch.linalg.qr(torch.randn(DIM, DIM, generator=generator)).Q[:5]

    def part(rows: int) -> Part:
        labels = torch.arange(5).repeat_interleave(rows)
        tokens = centres[labels][:, None] + 0.2 * torch.randn(len(labels), 3, DIM, generator=generator)
        return Part({"x": tokens.mean(1), "tokens": tokens}, labels, torch.arange(len(labels)) // 2)

    return Data(part(12), part(4), part(4), NAMES)


BLOBS = blobs()
ENOUGH = {"train": {"schedule": {"epochs": 12}, "optim": {"lr": 0.05}, "early_stop": {"metric": "nll"}}}


def check_it_learns(name: str) -> None:
    """Every row of five classes that lie far apart is told right after 36 steps, rows of other parts included."""
    tree = merged(CASES[name].model_dump(), ENOUGH)
    # Six hidden units with dropout would take longer.
    wide = {"hidden": [32, DIM], "dropout": 0} if tree["head"]["body"]["kind"] == "mlp" else {}
    again = {"epochs": 12, "lr": 0.05} if tree["second"]["kind"] in ("crt", "lws") else {}
    (end,) = trained([RunSpec.model_validate(merged(tree, {"head": {"body": wide}, "second": again}))], BLOBS)
    for part in (BLOBS.train, BLOBS.select, BLOBS.calibrate):
        assert (end.head.logits(part.columns).argmax(1) == part.labels).all()


def solved_exactly(run: RunSpec) -> RunSpec:
    """The run with logistic regression solved so far that what its tolerance leaves open is below rounding."""
    if run.head.classifier.kind != "logreg":
        return run
    return RunSpec.model_validate(merged(run.model_dump(), {"head": {"classifier": {"tolerance": 1e-9}}}))


def check_permuted_classes(name: str) -> None:
    """Other places of the classes give the same logits at those places, from first weights that moved along."""
    rows = with_features(ROWS, lambda x: x.double())
    parts = {role: getattr(rows, role) for role in ("train", "select", "calibrate")}
    moved = {role: replace(part, labels=PERMUTED[part.labels]) for role, part in parts.items()}
    names = tuple(NAMES[int((place == PERMUTED).nonzero())] for place in range(5))
    other = Data(**moved, class_names=names)
    if not is_stepped(name):
        case = solved_exactly(CASES[name])
        first, second = (trained([case], each)[0].head.logits(rows.select.columns) for each in (rows, other))
        assert torch.allclose(first.log_softmax(1)[:, :4], second.log_softmax(1)[:, PERMUTED[:4]], rtol=1e-4, atol=1e-4)
        return
    stages = [first_stage(run_contexts([0], [CASES[name]], each)) for each in (rows, other)]
    _start_alike(stages)
    logits = [_followed(stage, rows.select) for stage in stages]
    assert torch.allclose(logits[0], logits[1][:, PERMUTED], rtol=1e-8, atol=1e-8)


def _start_alike(stages: list[Stage]) -> None:
    """Give the second stage's classifier the first weights of the first one, each class its own."""
    first, second = (stage.stack.objectives[0].core.classifier.state_dict() for stage in stages)
    for key, value in first.items():
        if value.ndim > 0:
            second[key][PERMUTED] = value
    one, other = (stage.stack.objectives[0] for stage in stages)
    gates = [objective.parts.fedlas.gate for objective in (one, other) if "fedlas" in objective.parts]
    if gates and isinstance(gates[0], Gate):
        # The gate reads the logits of the classes that have rows, in their order.
        columns = other.statistics.position[PERMUTED[one.statistics.present]]
        gates[1].load_state_dict(gates[0].state_dict())
        with torch.no_grad():
            gates[1].hidden.weight[:, columns] = gates[0].hidden.weight


def _followed(stage: Stage, part: Part) -> Tensor:
    core: nn.Module = next(event.core for event in run_stage(stage, [0], never) if isinstance(event, Ended))
    context = stage.contexts[0]
    with torch.no_grad():
        logits: Tensor = core(context.head.preprocess(part.features(context.rows.columns)))
    return logits
