"""Which runs are trained together."""

from collections.abc import Sequence

from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.spec import skeleton
from frostbench.training.data.named import columns_of
from frostbench.training.data.part import Data
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.external import ExternalLoss
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import EarlyStop


def skeleton_of(run: RunSpec) -> str:
    """What runs have in common that can be trained as one stack.

    Runs of one stack may differ in swept numbers, class weights, the seed beside order_seed, which epoch is kept and
    what is done after training.
    """
    loss = run.train.loss.model_copy(update={"class_weight": NoWeight()})
    train = run.train.model_copy(update={"loss": loss, "early_stop": EarlyStop()})
    changes = {"train": train, "seed": 0, "order_seed": run.order, "posthoc": PosthocSpec()}
    return skeleton(run.model_copy(update=changes))


def stacks(run: RunSpec) -> bool:
    """Whether a run can be trained in a stack at all; losses and heads from outside may say that they cannot."""
    point = run.train.loss.point
    return run.head.classifier.stacks and not (isinstance(point, ExternalLoss) and not point.stacks)


def grouped(runs: Sequence[RunSpec], data: Data) -> list[list[int]]:
    """Places of runs, those together that are trained as one stack; groups in the order of their first run."""
    groups: dict[tuple[str, tuple[str, ...], int], list[int]] = {}
    for place, run in enumerate(runs):
        alone = 0 if stacks(run) else place + 1
        groups.setdefault((skeleton_of(run), columns_of(run, data), alone), []).append(place)
    return list(groups.values())
