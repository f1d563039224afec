"""The answers that a classifier owes the generic code: how it is made, and what its logits are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import Spec

MeanLosses = Callable[[Tensor, Tensor], Tensor]
"""Mean loss [K'] of logits [K', N, C] for the heads index [K'] int64; differentiable by autograd."""
Number = float | Tensor
"""An option of a head alone, or of the heads of a stack."""


@dataclass(frozen=True)
class Solution:
    """What the solver found, and how good it is.

    Attributes:
        weight: [C, D] float64.
        bias: [C] float64.
        gradient_norm: largest absolute entry of the objective's gradient at (weight, bias), before these are
            rounded to the head's float32.
        iterations: L-BFGS steps taken.
        is_converged: whether the gradient norm is within the tolerance that was asked for.
    """

    weight: Tensor
    bias: Tensor
    gradient_norm: float
    iterations: int
    is_converged: bool


@dataclass(frozen=True)
class Remark:
    """A combination of a classifier's own options and what there is to say about it.

    Attributes:
        verdict: "no effect" where an option has no effect, warn where the combination is rarely meant.
        applies: whether a classifier of this kind has the combination.
        sentence: what is wrong and what to do.
        beside: the option of the run that must act as well; empty where it is about the classifier alone.
    """

    verdict: Literal["no effect", "warn"]
    applies: Callable[[Any], bool]
    sentence: str
    beside: Literal["", "posthoc.adjustment"] = ""


class Classifier(Spec):
    """A map from the body's output [N, H] to logits [N, C].

    It is either stepped, by `build` and perhaps `start` and `margined`, or in closed form, by `fit` or `solve`. A kind
    is one file beside this one and one name in a union of `frostbench.heads.head`; it overrides what is true of it.
    """

    kind: str
    is_closed_form: ClassVar[bool] = False
    """Whether it takes no gradient steps."""
    minimises_loss: ClassVar[bool] = True
    """Whether it minimises train.loss; else it is made of the rows and their weights, by `fit`."""
    is_linear: ClassVar[bool] = False
    """Whether it trains W x + b, whose weights have lengths and whose biases are free."""
    is_cosine: ClassVar[bool] = False
    """Whether it trains a `CosineLayer`, to which the length of a row says nothing."""
    sets_margin: ClassVar[bool] = False
    """Whether this kind sets the own class a margin in training; what a plugin does, `has_margin` says."""
    reads_rows: ClassVar[bool] = True
    """Whether the training rows have a part in it."""
    remarks: ClassVar[tuple[Remark, ...]] = ()
    """Combinations of its own options that have no effect or are rarely meant."""

    @property
    def has_margin(self) -> bool:
        """Whether `margined` changes its logits in training."""
        return self.sets_margin

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0, which leaves a plain cosine classifier."""
        return False

    @property
    def favours_rare(self) -> bool:
        """Whether its margins are larger for rarer classes."""
        return False

    @property
    def knows_prior(self) -> bool:
        """Whether its logits hold the class prior of the rows that it was made from."""
        return True

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it; not where it is made of each class by itself."""
        return True

    @property
    def keeps_space(self) -> bool:
        """Whether it compares vectors with weights from a file, so that these must stay in the space of the file."""
        return False

    @property
    def logit_bound(self) -> float:
        """The largest size that a logit can have."""
        return float("inf")

    @property
    def centers_per_class(self) -> int:
        """The most weight vectors that a class can have."""
        return 1

    @property
    def reads_all_at_once(self) -> str:
        """The option, such as `init=class_means`, by which it reads all training rows at once; empty if none does."""
        return f"kind={self.kind}" if self.is_closed_form else ""

    @property
    def stacks(self) -> bool:
        """Whether heads of it may be trained as one stack."""
        return True

    def notes_for(self, rows: int) -> tuple[str, ...]:
        """Notes on its options beside that many training rows, each beginning with the option's name."""
        return ()

    def check_memory(self, classes: int, dim: int) -> None:
        """Refuse rows of width dim of so many classes.

        Raises:
            ValueError: its matrices would be too large for them.
        """

    def check_weights(self, class_names: tuple[str, ...], dim: int) -> None:
        """Refuse classes or a width dim of the vectors that its file of weights does not have.

        Raises:
            ValueError: the file is missing, has changed, lacks a class, or has another width.
        """

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Module:
        """An untrained module from width dim to that many classes, initialised from generator.

        Raises:
            TypeError: it is fitted to rows and has no untrained form.
        """
        raise TypeError(f"{self.kind} is fitted to rows; it cannot be built without them.")

    def start(self, layer: Any, rows: Rows, generator: torch.Generator) -> None:
        """Move first weights of a layer that `build` made to where the training rows say."""

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """The logits [N, C+] that the loss sees, with a margin on each row's own [N] class.

        Args:
            logits: [N, C+] predictions for the classes with training rows.
            own: [N] the label's place among these.
            counts: [C+] training rows.
            scale: what the module multiplies its cosines by.
            progress: of training, 0 to 1.
        """
        return logits

    def fit(self, rows: Rows) -> nn.Module:
        """The module fitted to rows.

        Raises:
            TypeError: it minimises a loss.
        """
        raise TypeError(f"{self.kind} is not fitted in closed form.")

    def carried(self, log_prior: Tensor) -> Tensor:
        """Log of the class prior [C+] that logits of a fitted classifier carry, from that of the rows."""
        return log_prior

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> nn.Module:
        """A module whose numbers, of these shapes by name, are still to be loaded."""
        return self.build(dim, classes, torch.Generator())

    @classmethod
    def solve_all(
        cls, specs: Sequence["Classifier"], x: Tensor, mean_losses: MeanLosses, classes: int
    ) -> list[Solution]:
        """Linear layers that minimise a loss of features x [N, D], for K specs of this kind at once.

        Args:
            specs: K classifiers of this kind.
            x: [N, D].
            mean_losses: as `frostbench.heads.logreg.logreg.solve_path` takes them.
            classes: number of classes.

        Raises:
            TypeError: it is not solved.
        """
        raise TypeError(f"{cls.__name__} is not solved for a loss.")
