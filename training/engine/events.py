"""Events that `fit` yields; each carries the index of its run in the list given to `fit`."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import ConfigDict

from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.heads.trained import TrainedHead

Reason = Literal["all_epochs", "early_stop", "given_epoch", "stopped", "diverged", "solved", "not_converged"]


@dataclass(frozen=True)
class Started:
    """The start of a run.

    Attributes:
        run: index of the run.
        epochs: maximum number of epochs over both stages; 0 for a closed-form head.
    """

    run: int
    epochs: int


@dataclass(frozen=True)
class Epoch:
    """The end of an epoch.

    Attributes:
        run: index of the run.
        epoch: number of the epoch, from 1; a second stage continues the count.
        loss: mean training objective over the epoch's steps.
        metrics: metrics on the validation rows.
        best_epoch: best epoch of the current stage so far.
        logs: values that the loss logs, such as gate shares; empty for most losses.
    """

    run: int
    epoch: int
    loss: float
    metrics: dict[str, float | None]
    best_epoch: int
    logs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """Values chosen for a head on the validation rows or on held-out folds.

    Attributes:
        epochs: kept epoch of each stage of gradient steps, counted from 1 in each stage; empty for closed-form heads.
        power: strength of the second stage, or None if it has no strength.
        tau: strength of the post-hoc prior adjustment, tuned or given; 0 if there is no adjustment.
        temperature: automatic temperature if validation rows were used to fit it (1 if they were too few), else None.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    epochs: tuple[int, ...] = ()
    power: float | None = None
    tau: float = 0.0
    temperature: float | None = None


@dataclass(frozen=True)
class Finished:
    """The end of a run that produced a head.

    Attributes:
        run: index of the run.
        head: head of the best epoch of the last stage, or the closed-form solution.
        reason: why the run ended.
        epoch: the kept epoch, or 0 for a closed-form head.
        seconds: wall time of the run.
        gradient_norm: gradient norm that the solver reached, or None for gradient-trained heads.
        stack_size: number of heads trained in the same stack; all of them report the wall time of the stack.
        chosen: values chosen for the head.
        held_out: cross-fitted predictions for the validation rows if post-hoc layers were fitted to them, else None.
    """

    run: int
    head: TrainedHead
    reason: Reason
    epoch: int
    seconds: float
    gradient_norm: float | None = None
    stack_size: int = 1
    chosen: Choices = field(default_factory=Choices)
    held_out: CrossFitted | None = None


@dataclass(frozen=True)
class Failed:
    """The end of a run that produced no head.

    Attributes:
        run: index of the run.
        message: the cause and how to fix it.
    """

    run: int
    message: str


@dataclass(frozen=True)
class Noted:
    """A note for the user about a run that continues.

    Attributes:
        run: index of the run.
        message: one sentence.
    """

    run: int
    message: str


Event = Started | Epoch | Finished | Failed | Noted
