"""A user's loss or loss method from a plugin file, used in place of the point loss."""

from typing import Any, ClassVar, Literal, Protocol, cast

import torch
from pydantic import Field, JsonValue, model_validator
from torch import Tensor

from frostbench.heads.plugin_files import PluginError, has_method, not_stackable, plugin, stackable
from frostbench.heads.spec import FILE, Spec, Tier
from frostbench.heads.stepped.text_weights import with_file_hash
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import PointLoss, Scores, Targets
from frostbench.training.losses.trial import try_part


class Plugin(Protocol):
    """A plain loss from a plugin file; the rows of its targets [N, C+] sum to 1."""

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        ...


class ExternalLoss(LossMethod):
    """A loss per sample, or a complete method, from a Python file as described in docs/plugins.md.

    The file is run when training begins, not when this spec is parsed; a trained head does not need it.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["external"] = "external"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Plugin loss: file")
    """Path of the .py file, relative to the current directory."""
    name: str = Field(default="", max_length=200, title="Plugin loss: class")
    """Class in that file: a frostbench.heads.spec.Spec that is called with scores and targets."""
    sha256: str = Field(default="", max_length=64, title="Plugin loss: SHA-256 of the file")
    """SHA-256 of the file; if empty, it is computed from the file."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=100, title="Plugin loss: options")
    """Options of the class, which the class validates."""

    @model_validator(mode="before")
    @classmethod
    def _note_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    def inner(self) -> Spec:
        """Return the plugin's own spec.

        Raises:
            PluginError: the file or the class cannot be loaded, or the class rejects its options.
        """
        return plugin(self.file, self.sha256, self.name, self.options, "__call__", "part")

    def resolved(self) -> LossMethod:
        """Return the plugin's method, or this spec if the plugin is a plain callable.

        Raises:
            PluginError: as `inner`.
        """
        inner = self.inner()
        return inner if isinstance(inner, LossMethod) else self

    def checked(self) -> Spec:
        """Return the plugin's own spec after a trial on a few scores.

        Raises:
            PluginError: as `inner`; or the loss is not [N], or the plugin claims to stack and fails under vmap.
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

    @property
    def stacks(self) -> bool:
        """Whether heads with this loss can be trained as one stack."""
        return stackable(self.inner())

    def check_solved(self) -> None:
        """Check that the plugin has no part, because logistic regression takes no gradient steps.

        Raises:
            PluginError: as `inner`, or the plugin has a part.
        """
        method = self.resolved()
        if method is not self and type(method).part is not LossMethod.part:
            raise PluginError(
                f"a method with a part needs gradient steps, but {self.name} is used with logreg, which takes none. "
                "Use head.classifier.kind=linear."
            )

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the plugin's loss [N] of scores [N, C+] against targets, or cross entropy for a method without one.

        A plain callable receives dense targets [N, C+], a method receives `Targets`.

        Raises:
            PluginError: as `inner`, or the plugin's loss is not [N].
        """
        inner = self.inner()
        if isinstance(inner, LossMethod):
            point = cast(PointLoss, inner) if has_method(type(inner), "__call__") else CrossEntropy()
            loss = point(scores, targets)
        else:
            loss = cast(Plugin, inner)(scores, targets.dense(scores.log_p))
        if loss.shape != targets.label_index.shape:
            raise PluginError(
                f"a point loss must return one value per sample, [N], but {self.name} returned {list(loss.shape)} for "
                f"{len(targets.label_index)} samples. Sum over the classes, and do not average over the samples."
            )
        return loss


def _scores(logits: Tensor) -> Scores:
    return Scores(logits, logits, logits.log_softmax(-1))
