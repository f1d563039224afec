"""Methods from plugin files: a copy of a library method trains exactly like the method itself."""

from pathlib import Path

import pytest
import torch
from catalogue import BASE, MLP, data, merged
from recording import recorded

from frostbench.heads.plugin_files import PluginError, run_plugin
from frostbench.training.engine.fit import fit
from frostbench.training.losses import adafocal, fedlas, vace
from frostbench.training.losses.external import ExternalLoss
from frostbench.training.run import RunSpec

COPIES = {
    "learned gate": (fedlas, "Fedlas", {"alpha": 0.1, "gate_rate": 3.0}),
    "margin": (fedlas, "Fedlas", {"alpha": 0.1, "base": "mbls", "margin": 1.0}),
    "random gate": (fedlas, "Fedlas", {"alpha": 0.2, "gate": "random", "indicator": "max_prob"}),
    "exact norms": (fedlas, "Fedlas", {"alpha": 0.2, "statistics": "exact", "source": "input", "gate": "plus"}),
    "fixed temperatures": (vace, "Vace", {"strength": 0.5}),
    "running temperatures": (vace, "Vace", {"strength": 0.5, "scatter": "own_logit_ema"}),
    "decay by class": (vace, "Vace", {"strength": 0.5, "acts_on": "decay"}),
    "selection rows": (adafocal, "AdaFocal", {"bins": 3}),
}


def run_of(loss, seed=0):
    return RunSpec.model_validate(merged(BASE, MLP, {"seed": seed, "order_seed": 5, "train": {"loss": loss}}))


@pytest.mark.parametrize("case", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_method_trains_bit_for_bit_what_the_method_trains(case, tmp_path):
    module, name, options = case
    file = tmp_path / "copied.py"
    file.write_text(Path(module.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    run_plugin(file)
    own = {"point": {"kind": "adafocal"} | options} if name == "AdaFocal" else {name.lower(): options}
    copied = {"point": {"kind": "external", "file": str(file), "name": name, "options": options}}
    ExternalLoss.model_validate(copied["point"]).checked()
    for dtype, seeds in ((torch.float32, [0]), (torch.float64, [0, 1, 2])):
        found, wanted = (recorded([run_of(loss, seed) for seed in seeds], data(dtype)) for loss in (copied, own))
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours["losses"] == theirs["losses"]
            assert ours["epochs"] == theirs["epochs"]
            assert ours["weights"] == theirs["weights"]


MINE = '''
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field

from frostbench.training.losses.method import LossMethod, LossPart
from frostbench.training.losses.step import Effect

class Drawn(LossMethod):
    """Cross entropy plus a term along a random direction, weighted by how often each row was seen."""
    kind: Literal["drawn"] = "drawn"
    weight: float = Field(default=0.1, ge=0)

    def part(self, core, classes, generator):
        return DrawnPart(classes, generator)

class DrawnPart(LossPart):
    row_buffers: ClassVar[Mapping[str, str]] = {"visits": "add"}

    def __init__(self, classes, generator):
        super().__init__(logs=("seen",))
        self.direction = torch.nn.Parameter(torch.randn(classes, generator=generator))

    def draw(self, method, rows, generator):
        return torch.randn(rows, generator=generator, device=generator.device)

    def effect(self, method, step):
        z, seen = step.present_logits(), self.visits[step.index]
        def term():
            return method.weight * ((z @ self.direction) * step.drawn.to(z) / (1 + seen)).square().mean()
        def finish():
            return {"visits": torch.ones_like(seen)}, {"seen": torch.stack([seen.sum(), torch.ones_like(seen).sum()])}
        return Effect(term=term, finish=finish)

class Called(Drawn):
    kind: Literal["called"] = "called"

    def __call__(self, scores, targets):
        return -2 * targets.mean(scores.log_p)

class Silent(Drawn):
    kind: Literal["silent"] = "silent"

    def part(self, core, classes, generator):
        return SilentPart(classes, generator)

class SilentPart(DrawnPart):
    def effect(self, method, step):
        return Effect()

class Branching(Drawn):
    kind: Literal["branching"] = "branching"

    def part(self, core, classes, generator):
        return BranchingPart(classes, generator)

class BranchingPart(DrawnPart):
    def effect(self, method, step):
        if step.logits.sum() > 0:
            return super().effect(method, step)
        return super().effect(method, step)
'''


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    run_plugin(path)
    return lambda name: {"point": {"kind": "external", "file": str(path), "name": name}}


@pytest.mark.parametrize("name", ["Drawn", "Called"])
def test_state_terms_draws_and_logs_of_a_plugin_in_a_stack(name, mine):
    runs = [run_of(mine(name), seed) for seed in range(3)]
    together, apart = recorded(runs, data(torch.float64)), [recorded([run], data(torch.float64))[0] for run in runs]
    plain = recorded([run_of({})], data(torch.float64))[0]
    for one, alone in zip(together, apart, strict=True):
        assert torch.tensor(one["says"]).sub(torch.tensor(alone["says"])).abs().max() < 1e-5
        # Each of the 71 rows is seen once in an epoch: 0 times before the first, and once before the second.
        assert [epoch[2] for epoch in one["epochs"]] == [{"seen": 0.0}, {"seen": 1.0}]
    assert torch.tensor(apart[0]["says"]).sub(torch.tensor(plain["says"])).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Silent", r"must run a step on 3 rows of 4 classes, but Silent raised .* log \['seen'\], got"),
        ("Branching", "must run under torch.func.vmap, but Branching fails with "),
    ],
)
def test_mistakes_of_a_part_are_reported_before_training(name, message, mine):
    with pytest.raises(PluginError, match=f"(?s){message}"):
        ExternalLoss.model_validate(mine(name)["point"]).checked()


def test_a_part_is_refused_where_no_steps_are_taken(mine):
    solved = RunSpec.model_validate(
        merged(BASE, {"head": {"classifier": {"kind": "logreg"}}, "train": {"loss": mine("Drawn")}})
    )
    with pytest.raises(PluginError, match="needs gradient steps, but Drawn was combined with logreg"):
        next(fit([solved], data(torch.float32)))
