"""The interface of classifiers: how they are built or fitted, and properties of their logits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import Spec

MeanLosses = Callable[[Tensor, Tensor], Tensor]
"""Maps logits [K', N, C] and head indices [K'] int64 to the heads' mean losses [K']; differentiable by autograd."""
Number = float | Tensor
"""A numeric option: a float for a single head, or a tensor for heads in a stack."""


@dataclass(frozen=True)
class Solution:
    """A solver's result and its accuracy.

    Attributes:
        weight: [C, D] float64.
        bias: [C] float64.
        gradient_norm: largest absolute entry of the objective's gradient at (weight, bias), before rounding to the
            head's float32.
        iterations: number of L-BFGS steps.
        is_converged: whether the gradient norm is within the configured tolerance.
    """

    weight: Tensor
    bias: Tensor
    gradient_norm: float
    iterations: int
    is_converged: bool


@dataclass(frozen=True)
class Remark:
    """A message about a combination of a classifier's own options.

    Attributes:
        verdict: "no effect" if an option has no effect, "warn" if the combination is rarely intended.
        applies: returns whether a classifier of this kind has the combination.
        sentence: the problem and its remedy.
        beside: the run's option that must be active too; empty if the classifier alone matters.
    """

    verdict: Literal["no effect", "warn"]
    applies: Callable[[Any], bool]
    sentence: str
    beside: Literal["", "posthoc.adjustment"] = ""


class Classifier(Spec):
    """A map from the body's output [N, H] to logits [N, C].

    It is either trained with gradient steps (`build`, optionally `start` and `margined`) or computed in closed form
    (`fit` or `solve_all`). Each kind is a class in its own file and a member of a union in `frostbench.heads.head`; it
    overrides the properties that differ.
    """

    kind: str
    is_closed_form: ClassVar[bool] = False
    """Whether it takes no gradient steps."""
    minimises_loss: ClassVar[bool] = True
    """Whether it minimises train.loss; otherwise `fit` computes it from the rows and their weights."""
    is_linear: ClassVar[bool] = False
    """Whether it trains W x + b with free weight norms and biases."""
    is_cosine: ClassVar[bool] = False
    """Whether it trains a `CosineLayer`, which ignores the length of a row."""
    sets_margin: ClassVar[bool] = False
    """Whether this kind gives the true class a margin in training; for plugins see `has_margin`."""
    reads_rows: ClassVar[bool] = True
    """Whether it depends on the training rows."""
    remarks: ClassVar[tuple[Remark, ...]] = ()
    """Messages about combinations of its own options that have no effect or are rarely intended."""

    @property
    def has_margin(self) -> bool:
        """Whether `margined` changes its logits in training."""
        return self.sets_margin

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0, which makes it a plain cosine classifier."""
        return False

    @property
    def favours_rare(self) -> bool:
        """Whether its margins are larger for rarer classes."""
        return False

    @property
    def knows_prior(self) -> bool:
        """Whether its logits contain the class prior of its training rows."""
        return True

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it; false if each class is fitted independently."""
        return True

    @property
    def keeps_space(self) -> bool:
        """Whether it compares vectors with weights from a file, so that vectors must stay in the file's space."""
        return False

    @property
    def logit_bound(self) -> float:
        """Upper bound on |logit|, or infinity."""
        return float("inf")

    @property
    def centers_per_class(self) -> int:
        """Maximum number of weight vectors per class."""
        return 1

    @property
    def reads_all_at_once(self) -> str:
        """The option that needs all training rows at once, such as `init=class_means`, or empty."""
        return f"kind={self.kind}" if self.is_closed_form else ""

    @property
    def stacks(self) -> bool:
        """Whether heads with this classifier may be trained as one stack."""
        return True

    def notes_for(self, rows: int) -> tuple[str, ...]:
        """Return notes on its options for this number of training rows, each starting with the option's name."""
        return ()

    def check_memory(self, classes: int, dim: int) -> None:
        """Check that its matrices for `dim` inputs and `classes` outputs fit into memory.

        Raises:
            ValueError: they would be too large.
        """

    def check_weights(self, class_names: tuple[str, ...], dim: int) -> None:
        """Check that its file of weights, if any, has all classes and the vectors' width `dim`.

        Raises:
            ValueError: the file is missing or changed, lacks a class, or has another width.
        """

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Module:
        """Build an untrained module with `dim` inputs and `classes` outputs, initialised from generator.

        Raises:
            TypeError: it is fitted to rows and has no untrained form.
        """
        raise TypeError(
            f"{self.kind} is computed from training rows, so it must be fitted, not built. Call fit with the rows."
        )

    def start(self, layer: Any, rows: Rows, generator: torch.Generator) -> None:
        """Set those initial weights of a layer from `build` that depend on the training rows."""

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """Return the logits [N, C+] that the loss sees, with a margin on each row's class.

        Args:
            logits: [N, C+] predictions for the classes with training rows.
            own: [N] index of each row's class among these.
            counts: [C+] training rows of each class.
            scale: factor on the cosines.
            progress: share of training that is done, from 0 to 1.
        """
        return logits

    def fit(self, rows: Rows) -> nn.Module:
        """Return the module fitted to rows.

        Raises:
            TypeError: it minimises a loss instead.
        """
        raise TypeError(
            f"{self.kind} minimises a loss, so it cannot be fitted to rows alone. Train a built one, or call solve_all."
        )

    def carried(self, log_prior: Tensor) -> Tensor:
        """Return the log class prior [C+] that a fitted classifier's logits contain, given that of the rows."""
        return log_prior

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> nn.Module:
        """Return a module into which saved tensors of these shapes, by name, can be loaded."""
        return self.build(dim, classes, torch.Generator())

    @classmethod
    def solve_all(
        cls, specs: Sequence["Classifier"], x: Tensor, mean_losses: MeanLosses, classes: int
    ) -> list[Solution]:
        """Compute linear layers that minimise a loss of features x [N, D], for K specs of this kind at once.

        The arguments are those of `frostbench.heads.logreg.logreg.solve_path`.

        Raises:
            TypeError: this kind has no solver.
        """
        raise TypeError(f"{cls.__name__} has no solver for a loss. Train a built one, or call fit.")
