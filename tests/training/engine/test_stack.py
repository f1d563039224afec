"""A stack of heads equals a loop over them, for the full catalogue and heads that differ in all allowed values."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from catalogue import BASE, CASES, MLP, NOT_TRAINED, data, merged, nested, options, trained, walked
from conformance import three

from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.heads.head import Closed
from frostbench.heads.spec import numbers
from frostbench.training.data.part import Part
from frostbench.training.engine.events import Epoch
from frostbench.training.engine.fit import never
from frostbench.training.engine.grouping import grouped
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stage_loop import StageFinished, run_stage
from frostbench.training.engine.stages import first_stage, second_stage
from frostbench.training.engine.vmap import lifted_numbers
from frostbench.training.run import RunSpec
from frostbench.training.second_stage.crt import Crt
from frostbench.training.second_stage.lws import Lws

SHARED = {name: run for name, run in CASES.items() if run.shots == 0}
"""Cases that may share a stack; with shots, every seed has its own rows."""
STEPPED = [name for name, run in SHARED.items() if not isinstance(run.head.classifier, Closed)]
EXACT, SINGLE = data(torch.float64), data(torch.float32)


def traces(runs, rows):
    """Return losses, reasons, kept epochs and parameters of each run in its stages of gradient steps."""
    contexts = run_contexts(range(len(runs)), runs, rows)
    found = [{"losses": [], "ends": [], "tensors": []} for _ in runs]
    ended = _followed(found, first_stage(contexts), [0] * len(runs))
    if isinstance(runs[0].second, Crt | Lws):
        stage = second_stage([event.context for event in ended], [event.recall_many for event in ended])
        _followed(found, stage, [event.last for event in ended])
    return found


def _followed(found, stage, done):
    ended = []
    for event in run_stage(stage, done, never):
        if isinstance(event, Epoch):
            found[event.run]["losses"].append(event.loss)
        if isinstance(event, StageFinished):
            trace = found[event.context.number]
            trace["ends"].append((event.reason, event.epoch, event.last))
            trace["tensors"] += [p.detach().clone() for p in event.core.state_dict().values()]
            ended.append(event)
    return sorted(ended, key=lambda event: event.context.number)


def assert_same(stacked, alone, rtol):
    assert stacked["ends"] == alone["ends"]
    assert stacked["losses"] == pytest.approx(alone["losses"], rel=rtol, abs=rtol)
    for ours, theirs in zip(stacked["tensors"], alone["tensors"], strict=True):
        # Relative to the largest number of a tensor, because numbers near 0 are differences of large ones.
        level = theirs.double().abs().max().clamp(min=1) if theirs.numel() else 1
        assert (ours.double() - theirs.double()).abs().max() <= rtol * level


@pytest.mark.parametrize("name", STEPPED)
def test_a_stack_equals_a_loop_in_float64(name):
    runs = three(CASES[name])
    assert grouped(runs, EXACT) == [[0, 1, 2]]
    for stacked, run in zip(traces(runs, EXACT), runs, strict=True):
        assert_same(stacked, traces([run], EXACT)[0], 1e-9)


VIEWS = {
    "consistency": {"views": "together", "loss": {"consistency": {"weight": 0.7}}},
    "contrast": {"views": "together", "loss": {"supcon": {"weight": 0.5}}},
    "class batches": {"views": "together", "sampler": {"kind": "pxk", "classes": 3, "rows": 4}},
    "averaged": {"views": "averaged"},
}


@pytest.mark.parametrize("train", VIEWS.values(), ids=VIEWS)
def test_a_stack_on_several_views_equals_a_loop_in_float64(train):
    part, generator = EXACT.train, torch.Generator().manual_seed(7)
    noise = {n: 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype) for n, x in part.columns.items()}
    columns = {name: torch.cat([x, x + noise[name]]) for name, x in part.columns.items()}
    images = torch.arange(len(part)).repeat(2)
    viewed = replace(EXACT, train=Part(columns, part.labels.repeat(2), images=images))
    runs = three(RunSpec.model_validate(merged(BASE, MLP, {"train": train})))
    assert grouped(runs, viewed) == [[0, 1, 2]]
    for stacked, run in zip(traces(runs, viewed), runs, strict=True):
        assert_same(stacked, traces([run], viewed)[0], 1e-9)


@pytest.mark.parametrize(("index", "name"), list(enumerate(SHARED)), ids=str)
def test_a_stack_equals_a_loop_in_float32(index, name):
    """The first, second or third head in turn, through the full engine."""
    runs = three(CASES[name])
    assert grouped(runs, SINGLE) == [[0, 1, 2]]
    stacked, (alone,) = trained(runs, SINGLE)[index % 3], trained([runs[index % 3]], SINGLE)
    assert (stacked.reason, stacked.epoch) == (alone.reason, alone.epoch)
    found, wanted = (e.head.log_probabilities(SINGLE.select.columns)[:, :4].detach() for e in (stacked, alone))
    assert (found - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def test_the_heads_of_a_stack_do_differ():
    """Otherwise equality with a loop would show little."""
    first, second, third = traces(three(CASES["head.body=mlp"]), EXACT)
    for one, other in ((first, second), (first, third), (second, third)):
        assert abs(one["losses"][-1] - other["losses"][-1]) > 1e-2


def test_numbers_that_no_step_reads_stay_out_of_the_stack():
    outside = {"optim.lr", "optim.weight_decay", "ema", "mixup.alpha"}
    read = {"head.classifier": {"kind": "arcface", "margin": 0.3}, "train.loss.smoothing.epsilon": 0.1}
    changes = read | {f"train.{path}": 0.5 for path in outside}
    run = parse(RunSpec, with_changes(RunSpec().model_dump(mode="json"), changes))
    found = lifted_numbers(SimpleNamespace(spec=run.train, classifier=run.head.classifier))
    train = {f"train.{path}" for path in numbers(run.train)} - {f"train.{path}" for path in outside}
    assert found.keys() == train | {f"classifier.{path}" for path in numbers(run.head.classifier)}
    assert (found["train.loss.smoothing.epsilon"], found["classifier.margin"]) == (0.1, 0.3)


class TestCatalogue:
    """The cases are complete: a new kind, choice or number without a case fails here."""

    def test_every_kind_and_choice_of_a_run_has_a_case(self):
        trees = [run.model_dump() for run in CASES.values()]
        for place, _ in walked():
            path, _, value = place.rpartition("=")
            if path and not path.endswith(".2"):
                names = [part.split("=")[0] for part in path.split(".")]
                kinds = [part.split("=") for part in path.split(".")]
                assert any(self.holds(tree, names, kinds, value) for tree in trees), place

    @staticmethod
    def holds(tree, names, kinds, value):
        for name, (_, *kind) in zip(names, kinds, strict=True):
            if name not in tree:
                return False
            tree = tree[name]
            if kind and tree.get("kind") != kind[0]:
                return False
        return str(tree["kind"] if isinstance(tree, dict) else tree) == value

    def test_every_swept_number_is_away_from_0_in_a_case(self):
        acting = {path for run in CASES.values() for path, number in numbers(run).items() if number != 0}
        found = {path for run in CASES.values() for path in numbers(run)}
        assert acting >= {path for path in found if not path.startswith(NOT_TRAINED)}

    def test_a_new_kind_gets_a_case_by_itself(self):
        from typing import Annotated, Literal

        from pydantic import Field

        from frostbench.heads.spec import SWEPT, Spec

        class Old(Spec):
            kind: Literal["old"] = "old"

        class New(Spec):
            kind: Literal["new"] = "new"
            rule: Literal["a", "b"] = "a"
            tau: float = Field(default=0.0, ge=0, json_schema_extra=SWEPT)

        class Outer(Spec):
            part: Annotated[Old | New, Field(discriminator="kind")] = Old()

        found = dict(walked(Outer))
        assert found["part=new"] == {"part": {"kind": "new", "tau": 0.3}}
        assert list(found) == ["part=old", "part=new", "part=new.rule=a", "part=new.rule=b"]
        assert merged(nested("part=new.rule", "b")) == {"part": {"rule": "b"}}
        assert options(New.model_fields["rule"].annotation) == ("a", "b")
