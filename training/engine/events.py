"""What `fit` reports while it works; each event says which run it belongs to by its place in the list."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import ConfigDict

from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.heads.trained import TrainedHead

Reason = Literal["all_epochs", "early_stop", "given_epoch", "stopped", "diverged", "solved", "not_converged"]


@dataclass(frozen=True)
class Started:
    """A run begins.

    Attributes:
        run: place of the run in the list given to fit.
        epochs: the most epochs it can take, over both stages; 0 where it is solved rather than stepped.
    """

    run: int
    epochs: int


@dataclass(frozen=True)
class Epoch:
    """An epoch ended.

    Attributes:
        run: place of the run.
        epoch: 1 for the first; a second stage counts on.
        loss: mean training objective over the epoch's steps.
        metrics: metrics of the selection rows.
        best_epoch: the best epoch so far of the stage at work.
        logs: what the loss logs of itself, such as shares of a gate; empty for most.
    """

    run: int
    epoch: int
    loss: float
    metrics: dict[str, float | None]
    best_epoch: int
    logs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Chosen:
    """What the selection rows, or held-out folds, chose for a head.

    Attributes:
        epochs: the kept epoch of each stage of gradient steps, 1 for the stage's first; none for heads without steps.
        power: strength of the second stage; None where it has none.
        tau: strength of the post-hoc shift, whether tuned or given; 0 where there is none.
        temperature: an automatic one that selection rows had a part in, 1 where they were too few; else None.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    epochs: tuple[int, ...] = ()
    power: float | None = None
    tau: float = 0.0
    temperature: float | None = None


@dataclass(frozen=True)
class Finished:
    """A run ended with a head.

    Attributes:
        run: place of the run.
        head: the head of the best epoch of the last stage, or the solution.
        reason: why it ended.
        epoch: the epoch that was kept; 0 where there are no epochs.
        seconds: wall time of the run.
        gradient_norm: the solver's certificate; None for stepped runs.
        together: heads that were trained as one stack; its wall time is that of each of them.
        chosen: what was chosen for it.
        held_out: what is said of the selection rows by layers that did not see them, where these are fitted to such
            rows; else None.
    """

    run: int
    head: TrainedHead
    reason: Reason
    epoch: int
    seconds: float
    gradient_norm: float | None = None
    together: int = 1
    chosen: Chosen = field(default_factory=Chosen)
    held_out: CrossFitted | None = None


@dataclass(frozen=True)
class Failed:
    """A run ended without a head.

    Attributes:
        run: place of the run.
        message: why, and what to do.
    """

    run: int
    message: str


@dataclass(frozen=True)
class Noted:
    """Something that a person should know of a run that goes on.

    Attributes:
        run: place of the run.
        message: a sentence.
    """

    run: int
    message: str


Event = Started | Epoch | Finished | Failed | Noted
