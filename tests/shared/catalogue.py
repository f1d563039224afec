"""Every option of a run as a small case of its own, read from the Specs: a new kind, choice or number joins by itself.

Tests reach this module by its name, through `pythonpath` in pyproject.toml.
"""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch

from frostbench.heads.bodies.attention_pool import AttentionPool
from frostbench.heads.bodies.body import Mlp
from frostbench.heads.closed_form.zero_shot import ZeroShot
from frostbench.heads.plugin_files import run_plugin
from frostbench.heads.spec import Spec
from frostbench.heads.stepped.prototype import Prototype
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.losses.acls import Acls
from frostbench.training.losses.class_weights import DeferredSchedule
from frostbench.training.losses.hardmine import HardMine
from frostbench.training.losses.mbls import Mbls
from frostbench.training.losses.projector import MlpProjector
from frostbench.training.run import RunSpec
from frostbench.training.sampling.samplers import ClassBatches
from frostbench.training.second_stage.crt import Crt
from frostbench.training.second_stage.lws import Lws

DIM, TOKENS, NAMES = 12, 3, ("ash", "beech", "cedar", "elm", "fir")
COUNTS = (40, 20, 10, 1, 0)
"""Training rows of each class: one has a single row, and one has none."""
BASE = {
    "train": {
        "schedule": {"epochs": 2, "min_steps": 0, "batch_size": 24},
        "optim": {"kind": "adamw", "lr": 0.02},
        "early_stop": {"metric": "last"},
    }
}
NOT_TRAINED = ("posthoc", "train.early_stop", "train.schedule.epochs", "train.views", "train.loss.consistency")
"""Places without a case here: what acts after training, when it ends, and what needs views (in test_stack.py)."""
SHALLOW = "second=refit.classifier="
"""Its classifiers have a case each, and their options have theirs as heads."""

MLP = {"head": {"body": {"kind": "mlp", "hidden": [8, 6]}}}
UNEVEN = {"train": {"loss": {"class_weight": {"kind": "inverse"}}}}
GIVEN = {"ash": 0.4, "beech": 0.3, "cedar": 0.2, "elm": 0.1}
NEEDS: dict[str, dict[str, Any]] = {
    "head.body=attention_pool": {"columns": ["tokens"]},
    "head.classifier=arcface.centers": {"head": {"classifier": {"centers": 3}}},
    "second": MLP,
    "second=refit.classifier=zero_shot": {"head": {"body": {"hidden": [8, DIM]}}},
    "train.loss.supcon": MLP,
    "train.loss.bcl": MLP,
    "train.loss.center": MLP,
    "train.loss.fedlas": MLP,
    "train.loss.fedlas.statistics=exact": {"train": {"loss": {"fedlas": {"source": "input"}}}},
    "train.loss.weight_schedule": UNEVEN,
    "train.loss.count": UNEVEN,
    "train.loss.logit_adjustment.prior": {
        "train": {"loss": {"class_weight": {"kind": "power"}, "logit_adjustment": {"given": GIVEN}}}
    },
    "train.loss.smoothing.spread": {"train": {"loss": {"class_weight": {"kind": "power"}}}},
    "train.mixup.where": MLP,
}
"""What a place needs beside it, so that it acts."""


@functools.cache
def folder() -> Path:
    """A folder with the files that some kinds read."""
    found = Path(tempfile.mkdtemp(prefix="frostbench-tests-"))
    weights = torch.randn(len(NAMES), DIM, generator=torch.Generator().manual_seed(4)).numpy()
    np.savez(found / "weights.npz", weights=weights, class_names=np.array(NAMES))
    (found / "plugin.py").write_text(PLUGIN)
    run_plugin(found / "plugin.py")
    return found


PLUGIN = """
import torch
from torch import nn
from frostbench.heads.spec import Spec

class Half(Spec):
    def __call__(self, scores, targets):
        return -(targets * scores.log_p).sum(-1) / 2

class Plain(Spec):
    def build(self, dim, classes, generator):
        return nn.Linear(dim, classes)
"""


def small(spec_type: type[Spec]) -> dict[str, Any]:
    """Options that keep a spec small, make it act, or that it cannot do without."""
    found: dict[type[Spec], dict[str, Any]] = {
        Mlp: {"hidden": [8, 6]},
        MlpProjector: {"hidden": 8, "width": 6},
        AttentionPool: {"heads": 4},
        Prototype: {"centers": 3},
        ZeroShot: {"file": str(folder() / "weights.npz")},
        ClassBatches: {"classes": 3, "rows": 6},
        DeferredSchedule: {"start": 0.4},
        Crt: {"epochs": 2},
        Lws: {"epochs": 2},
        HardMine: {"keep": 0.5, "warm": 0.0, "quota": 1},
        Mbls: {"margin": 1.0},
        Acls: {"margin": 1.0},
    }
    if spec_type.__module__ in ("frostbench.heads.stepped.external", "frostbench.training.losses.external"):
        name = "Plain" if ".heads." in spec_type.__module__ else "Half"
        return {"file": str(folder() / "plugin.py"), "name": name}
    return found.get(spec_type, {})


def merged(*trees: dict[str, Any]) -> dict[str, Any]:
    """Trees laid over each other, the last on top."""
    found: dict[str, Any] = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = merged(found[key], value) if both else value
    return found


def nested(place: str, value: Any) -> dict[str, Any]:
    """The tree with a value at a place such as head.classifier=ridge.rule."""
    for name in reversed([part.split("=")[0] for part in place.split(".")]):
        value = {name: value}
    return value


def members(annotation: Any) -> list[type[Spec]]:
    """The Specs that a field may hold."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Spec) else []
    return [spec for argument in get_args(annotation) for spec in members(argument)]


def options(annotation: Any) -> tuple[Any, ...]:
    """The choices that a field has, where they can be counted."""
    if annotation is bool:
        return (False, True)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def is_swept(field: Any) -> bool:
    """Whether a number may differ within a stack."""
    return isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("swept") is True


def away(field: Any) -> float:
    """A number that is not neutral, within the bounds of a field."""
    least = next((bound.ge for bound in field.metadata if getattr(bound, "ge", None)), 0)
    return 12.0 if least >= 1 else 0.3


def active(spec_type: type[Spec]) -> dict[str, Any]:
    """A spec's tree with its kind, and with the numbers moved that are neutral by default."""
    fields = spec_type.model_fields
    found = {"kind": fields["kind"].default} if "kind" in fields else {}
    if found:
        found |= {name: away(f) for name, f in fields.items() if is_swept(f) and f.default in (0, None)}
    return found | small(spec_type)


def walked(spec_type: type[Spec] = RunSpec, path: str = "", tree: dict[str, Any] | None = None) -> Iterator[Any]:
    """Places below a spec, each with a tree that has it act."""
    for name, field in spec_type.model_fields.items():
        place, found = f"{path}.{name}".lstrip("."), members(field.annotation)
        if place.startswith(NOT_TRAINED) or name == "kind":
            continue
        for member in found:
            kind = member.model_fields["kind"].default if "kind" in member.model_fields else ""
            here = f"{place}={kind}" if len(found) > 1 else place
            below = merged(tree or {}, nested(place, active(member)))
            yield here, below
            if not here.startswith(SHALLOW):
                yield from walked(member, here, below)
        for value in options(field.annotation):
            file = small(ZeroShot) if value == "weights" else {}
            told = nested(path, file) if file else {}
            yield f"{place}={value}", merged(tree or {}, nested(place, value), told)
        if field.annotation is int and field.default in (0, 1) and not is_swept(field) and "seed" not in name:
            yield f"{place}=2", merged(tree or {}, nested(place, 2))
        if is_swept(field) and "kind" not in spec_type.model_fields:
            yield place, merged(tree or {}, nested(place, 0.5 if field.default == 1 else 0.8))


TOGETHER: dict[str, dict[str, Any]] = {
    "everything": merged(
        MLP,
        {"head": {"classifier": {"kind": "arcface", "centers": 2}}, "second": {"kind": "crt", "epochs": 2}},
        {"train": {"augment": {"noise": 0.1}, "mixup": {"alpha": 0.4, "where": "hidden"}, "ema": 0.9}},
        {"train": {"sampler": {"kind": "shuffled", "draw": "progressive"}, "frofa": {"kind": "brightness"}}},
        {"train": {"loss": {"smoothing": {"epsilon": 0.1}, "supcon": {"weight": 0.3}, "center": {"weight": 0.1}}}},
        {"train": {"loss": {"weight_schedule": {"kind": "ramp"}, "logit_adjustment": {"tau": 0.5}}}},
    ),
    "bcl with a cosine": merged(
        MLP, {"head": {"classifier": {"kind": "cosine"}}, "train": {"loss": {"bcl": {"weight": 0.3}}}}
    ),
    "arcface mixed": {"head": {"classifier": {"kind": "arcface"}}, "train": {"mixup": {"alpha": 0.4}}},
    "temperatures in a margin": {
        "head": {"classifier": {"kind": "arcface"}},
        "train": {"loss": {"vace": {"strength": 0.5}, "logit_adjustment": {"tau": 1.0}}},
    },
    "running temperatures of mixed rows": merged(
        MLP, {"train": {"mixup": {"alpha": 0.4}, "loss": {"vace": {"strength": 0.5, "scatter": "own_logit_ema"}}}}
    ),
    "smoothed by norms of mixed rows": merged(
        MLP, {"train": {"mixup": {"alpha": 0.4}, "loss": {"fedlas": {"alpha": 0.1, "base": "mbls", "margin": 1.0}}}}
    ),
    "calibrated, mined and mixed": merged(
        UNEVEN,
        {"train": {"mixup": {"alpha": 0.4}, "loss": {"hardmine": small(HardMine), "mdca": {"weight": 0.5}}}},
        {"train": {"loss": {"point": {"kind": "mbls", "margin": 1.0}, "smoothing": {"epsilon": 0.1}}}},
    ),
    "calibrated under a prior": merged(
        {"train": {"loss": {"class_weight": {"kind": "sqrt_inverse"}, "logit_adjustment": {"tau": 1.0}}}},
        {"train": {"loss": {"mmce": {"weight": 0.5, "form": "weighted"}, "point": {"kind": "acls", "margin": 1.0}}}},
        {"train": {"loss": {"smoothing": {"epsilon": 0.1, "spread": "others"}}}},
    ),
    "mined and mixed": {"train": {"mixup": {"alpha": 0.4}, "loss": {"hardmine": small(HardMine)}}},
    "crt of a cosine": merged(
        MLP, {"head": {"classifier": {"kind": "cosine"}}, "second": {"kind": "crt", "epochs": 2}}
    ),
    "standardised": merged(
        {"head": {"preprocess": {"center": True, "std": True}}, "train": {"frofa": {"kind": "contrast"}}},
        {"train": {"augment": {"noise": 0.1}, "oversample": {"kind": "gaussian"}}},
    ),
}


@functools.cache
def _cases() -> dict[str, RunSpec]:
    found: dict[str, RunSpec] = {}
    for place, tree in [*walked(), *TOGETHER.items()]:
        needed = [need for start, need in NEEDS.items() if place.startswith(start)]
        spec = RunSpec.model_validate(merged(BASE, *needed, tree))
        if spec not in found.values():
            found[place] = spec
    return found


CASES = _cases()
"""Place to run; of equal runs the first."""


def is_kind(name: str) -> bool:
    """Whether a case is that of a spec, and not of a choice or a number within one."""
    value: Any = CASES[name]
    for part in [] if name in TOGETHER else name.split("."):
        value = getattr(value, part.split("=")[0])
    return isinstance(value, Spec)


def data(dtype: torch.dtype = torch.float64, counts: tuple[int, ...] = COUNTS, seed: int = 0) -> Data:
    """Five classes in 12 dimensions, as vectors `x` and as tokens; every other row shares its group with the next."""
    generator = torch.Generator().manual_seed(seed)
    centres = 1.5 * torch.randn(len(NAMES), DIM, generator=torch.Generator().manual_seed(9), dtype=torch.float64)

    def part(sizes: tuple[int, ...]) -> Part:
        labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        tokens = centres[labels][:, None] + torch.randn(len(labels), TOKENS, DIM, generator=generator).double()
        return Part({"x": tokens.mean(1).to(dtype), "tokens": tokens.to(dtype)}, labels, torch.arange(len(labels)) // 2)

    held = (9, 7, 5, 3, 2)[: len(counts)]
    return Data(part(counts), part(held), part(held), NAMES[: len(counts)])


def trained(runs: list[RunSpec], rows: Data) -> list[Finished]:
    """How each run ended; one that fails is an error."""
    events = list(fit(runs, rows))
    failed = [event.message for event in events if isinstance(event, Failed)]
    assert not failed, failed
    ended = {event.run: event for event in events if isinstance(event, Finished)}
    return [ended[place] for place in range(len(runs))]
