"""The protocol of a loss method: a Spec with options and rules, and the part it adds to a head's objective."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from frostbench.heads.head import Core
from frostbench.heads.spec import Spec
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.losses.step import Effect, StepContext, Updates
from frostbench.training.rule import Rule

# Training rows import the run, and the run imports the methods.
if TYPE_CHECKING:
    from frostbench.training.data.train_rows import TrainRows

Need = Literal["unmixed", "selection", "all_rows", "one_label"]
"""What a method needs: classifier inputs of rows before mixing; the validation rows after each epoch; all training rows
at once, so that they cannot stay on disk; or a single label per row, which views of two images lack."""


class LossMethod(Spec):
    """A method of the loss, listed in the catalogue as a field of `LossSpec` or as a kind of its `point`.

    A kind of `point` is called with scores and targets and returns a loss [N]. A method that computes anything else in
    a step, or keeps state, builds a `LossPart`.
    """

    group: ClassVar[str] = "Loss"
    """Title of the group in which forms show the method."""
    family: ClassVar[str] = ""
    """Purpose that it shares with other methods: two active methods of one family raise a warning."""
    trains: ClassVar[Literal["", "body", "classifier"]] = ""
    """What its term trains without a point loss: nothing, the layers before the classifier, or the classifier too."""
    shapes_point: ClassVar[bool] = False
    """Whether it changes the optimum of the point loss, for example by soft labels or divided logits."""
    neutral: ClassVar[Mapping[str, float]] = {}
    """Option values at which, taken together, the method has no effect."""
    needs_single_labels: ClassVar[str] = ""
    """Why each row must have one label, as a clause for the error when rows of two classes are mixed; empty if not."""
    prefers_single_labels: ClassVar[str] = ""
    """Why each row should have one label, as a clause for a warning about mixed rows; empty if not."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Rules about option combinations that concern only this method."""

    @property
    def is_neutral(self) -> bool:
        """Whether the method has no effect."""
        return bool(self.neutral) and all(getattr(self, name) == value for name, value in self.neutral.items())

    @property
    def is_convex(self) -> bool:
        """Whether its loss per sample is convex in the logits."""
        return True

    @property
    def is_softmax(self) -> bool:
        """Whether its loss per sample uses a softmax over the classes."""
        return True

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs from training besides the rows of a batch."""
        return frozenset()

    @property
    def least_temperature(self) -> float:
        """Smallest class temperature, a divisor of logits, that the method may set; 1 if it sets none."""
        return 1.0

    def resolved(self) -> "LossMethod":
        """Return the method that trains: the plugin's method if this one only names a plugin, otherwise itself."""
        return self

    def check_classes(self, classes: int) -> None:
        """Check the number of classes with training rows.

        Raises:
            ValueError: the method cannot be trained with this number of classes.
        """

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Return how many numbers a step holds per row of a batch, besides logits and the outputs of layers."""
        return 0

    def start_linear(self, linear: nn.Linear, present: int) -> None:
        """Set the initial weights of a linear classifier in place; present is the number of classes with rows."""

    def first_temperatures(self, rows: "TrainRows", statistics: ClassStatistics) -> Tensor | None:
        """Return the initial class temperatures [C] that divide the logits, or None if nothing divides them.

        They also apply to predictions, unless the part returns new ones in each step.
        """
        return None

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "LossPart[Any] | None":
        """Build the part of one head's objective, or return None if the method has nothing to do in a step.

        Args:
            core: body and classifier.
            classes: number of classes with training rows (C+).
            generator: source of random initial weights.
        """
        return None


class Setup(NamedTuple):
    """Data that a part may measure before the first step.

    Attributes:
        rows: training rows.
        statistics: class statistics of these rows.
        core: body and classifier.
        first: the part of the stack's first head, already set up; for that head, the part itself.
    """

    rows: "TrainRows"
    statistics: ClassStatistics
    core: Core
    first: "LossPart[Any]"


Method = TypeVar("Method", bound=LossMethod)


class LossPart(nn.Module, Generic[Method]):
    """The state of a method for one head during training, held in parameters and buffers.

    Parameters are trained with the head, and the part is discarded after training. Everything that runs in a step runs
    under `torch.func.vmap`: no `if` on values, no in-place writes, no randomness except from `draw`. The method that is
    passed in holds the head's own swept numbers, which may be tensors; `LossMethod.part` decides what is active.

    Attributes:
        logs: names of the logged values.
        lr_factor: factor on the learning rate of the part's parameters.
    """

    row_buffers: ClassVar[Mapping[str, Literal["set", "add"]]] = {}
    """Buffers with one entry per training row, which the engine creates with zeros: an update replaces the entries of
    the step's rows ("set") or is added to them ("add")."""

    def __init__(self, logs: tuple[str, ...] = (), lr_factor: float = 1.0) -> None:
        super().__init__()
        self.logs, self.lr_factor = logs, lr_factor
        for name in self.row_buffers:
            self.register_buffer(name, torch.zeros(0))

    def prepare(self, method: Method, setup: Setup) -> None:
        """Measure the initial state; called once, without gradients."""

    def draw(self, method: Method, rows: int, generator: torch.Generator) -> Any:
        """Draw the random tensors of a step on the generator's device; they must not depend on swept numbers."""
        return ()

    def class_temperatures(self, method: Method, step: StepContext) -> tuple[Tensor, Updates] | None:
        """Return the temperatures [C+] that divide the step's logits, and the updated buffers; without gradients.

        None keeps the initial temperatures. The logits of `step` are not divided yet.
        """
        return None

    def effect(self, method: Method, step: StepContext) -> Effect:
        """Return the method's contribution to a step."""
        return Effect()

    def decay_factors(self) -> Tensor | None:
        """Return factors [C, 1] on the weight decay of the classifier's rows, or None to leave it unchanged."""
        return None

    def after_epoch(self, method: Method, state: Mapping[str, Tensor], logits: Tensor, label_index: Tensor) -> Updates:
        """Return buffers after an epoch, for methods that need the validation rows; called for one head at a time.

        Args:
            method: the head's own method.
            state: buffers of the head.
            logits: [M, C+] of the validation rows whose classes have training rows.
            label_index: [M] columns of their labels.
        """
        return {}

    def report(self, state: Mapping[str, Tensor]) -> dict[str, float]:
        """Compute extra values to log after an epoch, besides the means of `logs`, from a head's buffers."""
        return {}
