"""Which runs are trained together in one stack."""

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
    """Return the key that all runs of one stack share.

    Runs of one stack may differ in swept numbers, class weights, seed (with the same order_seed, and without `shots`),
    early stopping and everything after training.
    """
    loss = run.train.loss.model_copy(update={"class_weight": NoWeight()})
    train = run.train.model_copy(update={"loss": loss, "early_stop": EarlyStop()})
    changes = {"train": train, "seed": 0, "order_seed": run.order, "posthoc": PosthocSpec()}
    return skeleton(run.model_copy(update=changes))


def stacks(run: RunSpec) -> bool:
    """Return whether a run can be trained in a stack; external losses and heads may opt out."""
    point = run.train.loss.point
    return run.head.classifier.stacks and not (isinstance(point, ExternalLoss) and not point.stacks)


def grouped(runs: Sequence[RunSpec], data: Data) -> list[list[int]]:
    """Group run indices into stacks, ordered by the first run of each stack."""
    groups: dict[tuple[str, tuple[str, ...], int, int], list[int]] = {}
    for index, run in enumerate(runs):
        alone = 0 if stacks(run) else index + 1
        draw = run.seed if run.shots else 0
        groups.setdefault((skeleton_of(run), columns_of(run, data), alone, draw), []).append(index)
    return list(groups.values())
