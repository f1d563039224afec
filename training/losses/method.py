"""The protocol of a loss method: a Spec with its options and rules, and the part of an objective that it builds."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from frostbench.heads.head import Core
from frostbench.heads.spec import Spec
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.losses.step import Effect, StepContext, Updates
from frostbench.training.rule import Rule

# Training rows belong to a run, and a run holds the methods.
if TYPE_CHECKING:
    from frostbench.training.data.train_rows import TrainRows

Need = Literal["unmixed", "selection", "all_rows", "one_label"]
"""What a method needs: classifier inputs of rows before they are mixed; the selection rows after each epoch; all
training rows at once, so that they cannot stay on disk; one label for each row, which views of two images lack."""


class LossMethod(Spec):
    """A method of the loss; a field of `LossSpec`, or a kind of its `point`, is its line in the catalogue.

    A kind of `point` is also called, with scores and targets, and gives a loss [N]. A method with something to compute
    in a step beside that, or to remember, builds a `LossPart`.
    """

    group: ClassVar[str] = "Loss"
    """Title of the group in which forms show it."""
    family: ClassVar[str] = ""
    """What it does, where other methods do the same: two of one family at once are warned of."""
    trains: ClassVar[Literal["", "body", "classifier"]] = ""
    """What its term trains without a point loss: nothing, the layers before the classifier, or the classifier too."""
    shapes_point: ClassVar[bool] = False
    """Whether it changes what the point loss asks for: soft labels, say, or divided logits."""
    neutral: ClassVar[Mapping[str, float]] = {}
    """Options with the values at which, all together, the method changes nothing."""
    needs_single_labels: ClassVar[str] = ""
    """Why each row must have one label, as a clause for the error when rows of two classes are mixed; empty if not."""
    prefers_single_labels: ClassVar[str] = ""
    """The same, if mixed rows give a warning instead."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Combinations of options that concern this method alone."""

    @property
    def is_neutral(self) -> bool:
        """Whether the method changes nothing."""
        for name, value in self.neutral.items():
            if getattr(self, name) != value:
                return False
        return bool(self.neutral)

    @property
    def is_convex(self) -> bool:
        """Whether its loss of a sample is convex in the logits."""
        return True

    @property
    def is_softmax(self) -> bool:
        """Whether its loss of a sample reads a softmax over the classes."""
        return True

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs of training beside the rows of a batch."""
        return frozenset()

    @property
    def least_temperature(self) -> float:
        """The least number by which it divides logits."""
        return 1.0

    def resolved(self) -> "LossMethod":
        """Return the method that trains: this one, unless it stands for one of a plugin."""
        return self

    def check_classes(self, classes: int) -> None:
        """Refuse a number of classes with training rows.

        Raises:
            ValueError: the method cannot be trained on so many, or so few.
        """

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Return how many numbers a step holds for each row of a batch, beside logits and layers."""
        return 0

    def start_linear(self, linear: nn.Linear, present: int) -> None:
        """Set first weights of a linear classifier, of whose classes so many are present, in place."""

    def first_temperatures(self, rows: "TrainRows", statistics: ClassStatistics) -> Tensor | None:
        """Return the temperatures [C] that divide the logits from the start, or None where nothing divides them.

        They are those of prediction too, unless the part gives others in each step.
        """
        return None

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "LossPart[Any] | None":
        """Build the part of one head's objective, or None where a step has nothing to do for the method.

        Args:
            core: body and classifier.
            classes: number of classes with training rows (C+).
            generator: draws first weights.
        """
        return None


class Setup(NamedTuple):
    """What a part may measure before the first step.

    Attributes:
        rows: training rows.
        statistics: statistics of their classes.
        core: body and classifier.
        first: the part of the stack's first head, which was set up before; the part itself in that head.
    """

    rows: "TrainRows"
    statistics: ClassStatistics
    core: Core
    first: "LossPart[Any]"


Method = TypeVar("Method", bound=LossMethod)


class LossPart(nn.Module, Generic[Method]):
    """What a method keeps beside one head while it trains; its parameters and buffers are the state.

    Parameters are trained with the head, and all of it is thrown away after training. Everything that takes a step runs
    under `torch.func.vmap`: no `if` on values, no writing in place, no randomness but what `draw` gave. The method that
    is passed holds the head's own swept numbers, which may be tensors; what is on was decided by `LossMethod.part`.

    Attributes:
        logs: names of what is logged.
        lr_factor: factor on the learning rate of the part's parameters.
    """

    row_buffers: ClassVar[Mapping[str, Literal["set", "add"]]] = {}
    """Names of buffers with an entry for each training row, sized by the engine and zero at first: an update replaces
    the entries of the step's rows, or is added to them."""

    def __init__(self, logs: tuple[str, ...] = (), lr_factor: float = 1.0) -> None:
        super().__init__()
        self.logs, self.lr_factor = logs, lr_factor
        for name in self.row_buffers:
            self.register_buffer(name, torch.zeros(0))

    def prepare(self, method: Method, setup: Setup) -> None:
        """Measure what training starts from; called once, without gradients."""

    def draw(self, method: Method, rows: int, generator: torch.Generator) -> Any:
        """Draw the random tensors of a step of so many rows, where generator is; not by swept numbers."""
        return ()

    def class_temperatures(self, method: Method, step: StepContext) -> tuple[Tensor, Updates] | None:
        """Return the temperatures [C+] that divide the logits of the step, and the buffers after it; without gradients.

        None where the first temperatures hold. The logits of the step are not divided yet.
        """
        return None

    def effect(self, method: Method, step: StepContext) -> Effect:
        """Return what the method does in a step."""
        return Effect()

    def decay_factors(self) -> Tensor | None:
        """Return factors [C, 1] on the weight decay of the classifier's rows, or None where there are none."""
        return None

    def after_epoch(self, method: Method, state: Mapping[str, Tensor], logits: Tensor, own: Tensor) -> Updates:
        """Return buffers after an epoch, for methods that need the selection rows; not mapped over heads.

        Args:
            method: the head's own.
            state: buffers of the head.
            logits: [M, C+] of the selection rows whose classes have training rows.
            own: [M] places of their labels.
        """
        return {}

    def report(self, state: Mapping[str, Tensor]) -> dict[str, float]:
        """Return what is logged of a head's buffers at the end of an epoch, beside the means of `logs`."""
        return {}
