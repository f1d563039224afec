"""A method of someone's own, from a file outside the repository, in place of the point loss."""

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
    """The form of a loss of someone's own: loss [N] of scores [N, C+] against targets [N, C+] whose rows sum to 1."""

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        """Loss [N]."""
        ...


class ExternalLoss(LossMethod):
    """A loss of one sample, or a whole method, from a Python file; docs/plugins.md says what such a file holds.

    Its file is run when training begins, but not when this spec is read; a trained head does not need it.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["external"] = "external"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Plugin loss: file")
    """The .py file, relative to the current directory."""
    name: str = Field(default="", max_length=200, title="Plugin loss: class")
    """The class in that file, a frostbench.heads.spec.Spec that is called with scores and targets."""
    sha256: str = Field(default="", max_length=64, title="Plugin loss: SHA-256 of the file")
    """SHA-256 of the file; left empty, it is taken from the file."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=100, title="Plugin loss: options")
    """The class's own options, checked by it."""

    @model_validator(mode="before")
    @classmethod
    def _note_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    def inner(self) -> Spec:
        """The plugin's own spec.

        Raises:
            PluginError: the file or the class cannot be had, or the class refuses its options.
        """
        return plugin(self.file, self.sha256, self.name, self.options, "__call__", "part")

    def resolved(self) -> LossMethod:
        """Return the plugin's method where it is one, else this, which calls the plugin.

        Raises:
            PluginError: as `inner`.
        """
        inner = self.inner()
        return inner if isinstance(inner, LossMethod) else self

    def checked(self) -> Spec:
        """The plugin's own spec, after a trial on a few scores.

        Raises:
            PluginError: as `inner`; or it gives no loss [N], or says that it stacks and fails under vmap.
        """
        inner = self.inner()
        logits = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
        targets = Targets(torch.arange(3))
        self(_scores(logits), targets)
        if isinstance(inner, LossMethod):
            try_part(inner, self, self.stacks)
        if self.stacks:
            try:
                one = torch.func.grad(lambda own: self(_scores(own), targets).sum())
                torch.func.vmap(one)(torch.stack([logits, -logits]))
            except Exception as error:
                raise not_stackable(inner, error) from error
        return inner

    @property
    def stacks(self) -> bool:
        """Whether heads with this loss may be trained as one stack."""
        return stackable(self.inner())

    def check_solved(self) -> None:
        """Refuse logistic regression, which takes no gradient steps, where the plugin has a part.

        Raises:
            PluginError: as `inner`, or the plugin has one.
        """
        method = self.resolved()
        if method is not self and type(method).part is not LossMethod.part:
            raise PluginError(
                f"a method with a part is trained by gradient steps, however: {self.name} came with logreg, which "
                "takes none. Use head.classifier.kind=linear."
            )

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against targets: what the plugin gives, or cross entropy where it is not called.

        A plain callable gets the targets as [N, C+] with rows that sum to 1, a method gets them as they are.

        Raises:
            PluginError: as `inner`, or what the plugin gives is not [N].
        """
        inner = self.inner()
        if isinstance(inner, LossMethod):
            point = cast(PointLoss, inner) if has_method(type(inner), "__call__") else CrossEntropy()
            loss = point(scores, targets)
        else:
            loss = cast(Plugin, inner)(scores, targets.dense(scores.log_p))
        if loss.shape != targets.own.shape:
            raise PluginError(
                f"a point loss gives one value per sample, [N], however: {self.name} gives {list(loss.shape)} for "
                f"{len(targets.own)} samples. Sum over the classes, and leave the mean over samples out."
            )
        return loss


def _scores(logits: Tensor) -> Scores:
    return Scores(logits, logits, logits.log_softmax(-1))
