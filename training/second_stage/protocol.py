"""The answers that a second stage owes the generic code."""

from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor

from frostbench.heads.head import Closed
from frostbench.heads.spec import Spec
from frostbench.training.rule import Rule
from frostbench.training.spec.optim import Schedule
from frostbench.training.spec.stage import StopMetric


class SecondStage(Spec):
    """A way to another classifier after the first stage, with the body frozen.

    A method is one file beside this one and one name in the union of `frostbench.training.run`; it overrides what is
    true of it. By itself this is a stage that changes nothing. One of gradient steps is a `SteppedStage`; one without
    has either a `replacement` or `strengths`.
    """

    kind: str
    is_none: ClassVar[bool] = False
    """Whether there is no second stage, so that the head of the first is the result."""
    takes_steps: ClassVar[bool] = False
    """Whether it is trained by gradient steps."""
    trains_classifier: ClassVar[bool] = False
    """Whether it trains or makes the whole classifier, which the first stage may then leave untrained."""
    rescales_rows: ClassVar[bool] = False
    """Whether it changes the lengths of a linear classifier's weights, and so needs one."""
    keeps_class_weights: ClassVar[bool] = False
    """Whether classes weigh in the classifier that is the result as they do in train.loss."""
    reads_early_stop: ClassVar[bool] = False
    """Whether it reads options of train.early_stop."""
    needs_all_rows: ClassVar[bool] = False
    """Whether it reads all training rows at once, so that none can stay on disk."""
    needs_own_labels: ClassVar[bool] = False
    """Whether each training row must have one label, shared with no other class."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Combinations with other options that concern this method."""

    @property
    def replacement(self) -> Closed | None:
        """The classifier without gradient steps that takes the place of the trained one; None where there is none."""
        return None

    @property
    def strengths(self) -> tuple[float, ...]:
        """The strengths at which it can change a linear classifier's weights; one where it is given."""
        return ()

    @property
    def is_tuned(self) -> bool:
        """Whether its strength is chosen on the selection rows."""
        return len(self.strengths) > 1

    def with_strength(self, strength: float) -> Self:
        """The stage with this strength, where one is to be chosen."""
        return self

    def rescaled(self, weight: Tensor, strength: float) -> Tensor:
        """Weights [C, H] of a linear classifier after it, at a strength; biases are then dropped."""
        return weight

    def carried(self, log_prior: Tensor) -> Tensor:
        """Log of the prior [C+] that rescaled logits carry, from that of the training rows."""
        return log_prior

    def schedule(self, first: Schedule) -> Schedule | None:
        """The schedule of its gradient steps after a first stage with another; None where it takes none."""
        return None

    def epochs_for(self, first: Schedule, rows: int) -> int:
        """The most epochs of gradient steps that it takes on that many rows, after a first stage with a schedule."""
        own = self.schedule(first)
        return 0 if own is None else own.epochs_for(rows)

    @property
    def given_epoch(self) -> int | None:
        """The epoch of this stage to end at; None where its epochs are judged, or where it has none."""
        return None

    @property
    def is_judged(self) -> bool:
        """Whether the selection rows choose one of its epochs."""
        return False

    def metric_after(self, first: StopMetric) -> StopMetric:
        """The metric that judges its epochs, after a first stage that was judged by another."""
        return first

    def check_judged(self, metric: StopMetric, found: Mapping[str, float | None]) -> None:
        """Refuse selection rows on which its epochs cannot be judged by a metric.

        Args:
            metric: the one that judges them.
            found: metrics of a perfect prediction; None where a metric counts no class.

        Raises:
            ValueError: it is judged by one that counts none.
        """

    @property
    def draws_alike(self) -> bool:
        """Whether its gradient steps see all classes alike, from the first to the last."""
        return False

    @property
    def refuses_folds(self) -> str:
        """Why it cannot be cross-validated, as the words of an error; empty where it can."""
        return ""

    def paced(self, first: Schedule, rows: int) -> Self:
        """The stage with as many epochs as it takes on that many rows, whatever the number it is fitted to."""
        return self

    def shortened(self) -> Self:
        """The stage cut to one epoch of gradient steps, where only the first stage is watched."""
        return self

    def watched(self) -> Self:
        """The stage run to its end, whatever the selection rows say."""
        return self

    def kept_at(self, epoch: int) -> "SecondStage":
        """The stage ended at an epoch; at 0 the first stage is the result."""
        return self

    def width(self, hidden: int, classes: int) -> int:
        """Numbers of each row that its gradient steps read, of a head with that width before the classifier."""
        return 0
