"""A point loss of someone's own, from a file outside the repository."""

from typing import Any, ClassVar, Literal, Protocol, cast

import torch
from pydantic import Field, JsonValue, model_validator
from torch import Tensor

from frostbench.heads.plugin_files import PluginError, not_stackable, plugin, stackable
from frostbench.heads.spec import FILE, Spec, Tier
from frostbench.heads.stepped.text_weights import with_file_hash
from frostbench.training.losses.scores import Scores, Targets


class Plugin(Protocol):
    """The form of a loss of someone's own: loss [N] of scores [N, C+] against targets [N, C+] whose rows sum to 1."""

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        """Loss [N]."""
        ...


class ExternalLoss(Spec):
    """A loss of one sample from a Python file; docs/plugins.md says what such a file holds.

    Its file is run when training begins, but not when this spec is read; a trained head does not need it.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["external"] = "external"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE)
    """The .py file, relative to the current directory."""
    name: str = Field(default="", max_length=200)
    """The class in that file, a frostbench.heads.spec.Spec that is called with scores and targets."""
    sha256: str = Field(default="", max_length=64)
    """SHA-256 of the file; left empty, it is taken from the file."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=100)
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
        return plugin(self.file, self.sha256, self.name, self.options, "__call__")

    def checked(self) -> Spec:
        """The plugin's own spec, after a trial on a few scores.

        Raises:
            PluginError: as `inner`; or it gives no loss [N], or says that it stacks and fails under vmap.
        """
        inner = self.inner()
        logits = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
        targets = Targets(torch.arange(3))
        self(_scores(logits), targets)
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

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against targets, which the plugin gets as [N, C+] with rows that sum to 1.

        Raises:
            PluginError: as `inner`, or what the plugin gives is not [N].
        """
        loss = cast(Plugin, self.inner())(scores, targets.dense(scores.log_p))
        if loss.shape != targets.own.shape:
            raise PluginError(
                f"a point loss gives one value per sample, [N], however: {self.name} gives {list(loss.shape)} for "
                f"{len(targets.own)} samples. Sum over the classes, and leave the mean over samples out."
            )
        return loss


def _scores(logits: Tensor) -> Scores:
    return Scores(logits, logits, logits.log_softmax(-1))
