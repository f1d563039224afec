"""A user-defined loss or method from a plugin file, in place of the point loss."""

from typing import ClassVar, Literal, Protocol, cast

import torch
from pydantic import Field, JsonValue
from torch import Tensor

from frostbench.heads.plugin_files import PluginError, has_method, not_stackable
from frostbench.heads.plugin_spec import PluginSpec
from frostbench.heads.spec import FILE, Spec
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import PointLoss, Scores, Targets
from frostbench.training.losses.trial import try_part


class Plugin(Protocol):
    """Interface of a plugin's loss: loss [N] of scores [N, C+] against targets [N, C+] whose rows sum to 1."""

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        """Return the loss [N]."""
        ...


class ExternalLoss(PluginSpec, LossMethod):
    """A loss of one sample, or a full method, from a Python file; docs/plugins.md describes such a file.

    The file is run when training begins, but not when this spec is read; a trained head does not need it.
    """

    methods: ClassVar[tuple[str, ...]] = ("__call__", "part")
    kind: Literal["external"] = "external"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Plugin loss: file")
    """Path to the .py file, relative to the current directory."""
    name: str = Field(default="", max_length=200, title="Plugin loss: class")
    """Name of the class in that file: a frostbench.heads.spec.Spec that is called with scores and targets."""
    sha256: str = Field(default="", max_length=64, title="Plugin loss: SHA-256 of the file")
    """SHA-256 of the file; if empty, it is computed from the file."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=100, title="Plugin loss: options")
    """Options of the plugin's class, which checks them."""

    def resolved(self) -> LossMethod:
        """Return the plugin's method if it is one, else this spec, which calls the plugin.

        Raises:
            PluginError: as `inner`.
        """
        inner = self.inner()
        return inner if isinstance(inner, LossMethod) else self

    def checked(self) -> Spec:
        """Return the plugin's own spec, after a trial on a few scores.

        Raises:
            PluginError: as `inner`; or the plugin does not return a loss [N], or claims to stack and fails under vmap.
        """
        inner = self.inner()
        logits = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
        targets = Targets(torch.arange(3))
        self(_scores(logits), targets)
        if isinstance(inner, LossMethod):
            try_part(inner, self, self.stacks)
        if self.stacks:
            try:
                gradient = torch.func.grad(lambda z: self(_scores(z), targets).sum())
                torch.func.vmap(gradient)(torch.stack([logits, -logits]))
            except Exception as error:
                raise not_stackable(inner, error) from error
        return inner

    def check_solved(self) -> None:
        """Reject logistic regression, which takes no gradient steps, if the plugin has a part.

        Raises:
            PluginError: as `inner`, or the plugin has a part.
        """
        method = self.resolved()
        if method is not self and type(method).part is not LossMethod.part:
            raise PluginError(
                f"A method with a part needs gradient steps, but {self.name} was combined with logreg, which takes "
                "none. Use head.classifier.kind=linear."
            )

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets: the plugin's, or cross entropy if it has none.

        A plain callable gets the targets as [N, C+] with rows that sum to 1; a method gets them unchanged.

        Raises:
            PluginError: as `inner`, or the plugin does not return [N] values.
        """
        inner = self.inner()
        if isinstance(inner, LossMethod):
            point = cast(PointLoss, inner) if has_method(type(inner), "__call__") else CrossEntropy()
            loss = point(scores, targets)
        else:
            loss = cast(Plugin, inner)(scores, targets.dense(scores.log_p))
        if loss.shape != targets.label_index.shape:
            raise PluginError(
                f"A point loss must return one value per sample, [N], but {self.name} returns {list(loss.shape)} for "
                f"{len(targets.label_index)} samples. Sum over the classes, but do not average over the samples."
            )
        return loss


def _scores(logits: Tensor) -> Scores:
    return Scores(logits, logits, logits.log_softmax(-1))
