"""The protocol of a second stage."""

from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor

from frostbench.heads.head import Closed
from frostbench.heads.spec import Spec
from frostbench.training.rule import Rule
from frostbench.training.spec.optim import Schedule
from frostbench.training.spec.stage import StopMetric


class SecondStage(Spec):
    """A change of the classifier after the first stage, with the body frozen.

    A method is one file in this folder and one name in the union of `frostbench.training.run`; it overrides the
    members that concern it, and the defaults here change nothing. A method with gradient steps is a `SteppedStage`;
    one without defines either `replacement` or `strengths`.
    """

    kind: str
    is_none: ClassVar[bool] = False
    """Whether there is no second stage, so that the head of the first stage is the result."""
    takes_steps: ClassVar[bool] = False
    """Whether it takes gradient steps."""
    trains_classifier: ClassVar[bool] = False
    """Whether it trains or replaces the full classifier, which the first stage may then leave untrained."""
    rescales_rows: ClassVar[bool] = False
    """Whether it rescales the weights of a linear classifier, and therefore needs one."""
    keeps_class_weights: ClassVar[bool] = False
    """Whether the class weights of train.loss apply to the resulting classifier."""
    reads_early_stop: ClassVar[bool] = False
    """Whether it uses options of train.early_stop."""
    needs_all_rows: ClassVar[bool] = False
    """Whether it needs all training rows at once, so that they cannot stay on disk."""
    needs_own_labels: ClassVar[bool] = False
    """Whether each training row must have a single label."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Rules about option combinations that concern this method."""

    @property
    def replacement(self) -> Closed | None:
        """The classifier without gradient steps that replaces the trained one, or None."""
        return None

    @property
    def strengths(self) -> tuple[float, ...]:
        """The candidate strengths for rescaling a linear classifier's weights: one if given, none without rescaling."""
        return ()

    @property
    def is_tuned(self) -> bool:
        """Whether its strength is chosen on the validation rows."""
        return len(self.strengths) > 1

    def with_strength(self, strength: float) -> Self:
        """Return the stage with this strength, or unchanged if its strength is not tuned."""
        return self

    def rescaled(self, weight: Tensor, strength: float) -> Tensor:
        """Return the weights [C, H] of a linear classifier rescaled at a strength; biases are dropped."""
        return weight

    def carried(self, log_prior: Tensor) -> Tensor:
        """Return the log prior [C+] in rescaled logits, given that of the training rows."""
        return log_prior

    def schedule(self, first: Schedule) -> Schedule | None:
        """Return the schedule of its gradient steps, given that of the first stage; None without gradient steps."""
        return None

    def epochs_for(self, first: Schedule, rows: int) -> int:
        """Return its maximum number of epochs on this many rows, given the schedule of the first stage."""
        schedule = self.schedule(first)
        return 0 if schedule is None else schedule.epochs_for(rows)

    @property
    def given_epoch(self) -> int | None:
        """The fixed last epoch of this stage; None if a metric chooses it or the stage has no epochs."""
        return None

    @property
    def is_judged(self) -> bool:
        """Whether one of its epochs is chosen on the validation rows."""
        return False

    def metric_after(self, first: StopMetric) -> StopMetric:
        """Return the metric that chooses its epoch, given the metric of the first stage."""
        return first

    def check_judged(self, metric: StopMetric, perfect: Mapping[str, float | None]) -> None:
        """Check that a metric can evaluate its epochs on the validation rows.

        Args:
            metric: metric that chooses its epoch.
            perfect: metrics of a perfect prediction; None for a metric that counts no class.

        Raises:
            ValueError: the metric counts no class.
        """

    @property
    def draws_alike(self) -> bool:
        """Whether all its gradient steps draw classes equally often."""
        return False

    @property
    def refuses_folds(self) -> str:
        """Error message if it cannot be cross-validated, otherwise empty."""
        return ""

    def paced(self, first: Schedule, rows: int) -> Self:
        """Return the stage with the epoch count for this many rows, regardless of the rows it is fitted to."""
        return self

    def shortened(self) -> Self:
        """Return the stage cut to one epoch, for runs in which only the first stage matters."""
        return self

    def watched(self) -> Self:
        """Return the stage without early stopping or choice of an epoch."""
        return self

    def kept_at(self, epoch: int) -> "SecondStage":
        """Return the stage ended at an epoch; 0 makes the first stage the result."""
        return self

    def width(self, hidden: int, classes: int) -> int:
        """Return the input width of its gradient steps, given the width before the classifier; 0 without steps."""
        return 0
