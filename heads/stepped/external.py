"""A classifier of someone's own, from a file outside the repository."""

from typing import Any, ClassVar, Literal, Protocol, cast

import torch
from pydantic import Field, JsonValue, model_validator
from torch import Tensor, nn

from frostbench.heads.classifier import Classifier, Number
from frostbench.heads.plugin_files import PluginError, has_method, not_stackable, plugin, stackable
from frostbench.heads.spec import FILE, Spec, Tier
from frostbench.heads.stepped.text_weights import with_file_hash


class Buildable(Protocol):
    """What a classifier in a plugin offers."""

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Module:
        """A module from h [N, dim] to logits [N, classes]."""
        ...


class Marginal(Protocol):
    """What a classifier in a plugin offers that has a margin in training."""

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """The logits [N, C+] that the loss sees."""
        ...


class ExternalClassifier(Classifier):
    """A classifier from a Python file, trained by gradient steps; docs/plugins.md says what such a file holds.

    Its file is run when the head is built and when its bundle is loaded, but not when this spec is read.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["external"] = "external"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Plugin head: file")
    """The .py file, relative to the current directory."""
    name: str = Field(default="", max_length=200, title="Plugin head: class")
    """The class in that file, a frostbench.heads.spec.Spec with the method build."""
    sha256: str = Field(default="", max_length=64, title="Plugin head: SHA-256 of the file")
    """SHA-256 of the file; left empty, it is taken from the file."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=100, title="Plugin head: options")
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
        return plugin(self.file, self.sha256, self.name, self.options, "build")

    def checked(self) -> Spec:
        """The plugin's own spec; its module is checked when it is built, for only then are its widths known."""
        return self.inner()

    @property
    def stacks(self) -> bool:
        """Whether heads of this classifier may be trained as one stack."""
        return stackable(self.inner())

    @property
    def has_margin(self) -> bool:
        """Whether it changes its logits in training."""
        return has_method(type(self.inner()), "margined")

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Module:
        """The plugin's module from width dim to that many classes.

        torch's global generator is seeded from generator while it is built, so that modules which draw from it, such as
        nn.Linear, are reproducible as well.

        Raises:
            PluginError: as `inner`; or the module gives no logits [N, C], fails under vmap, or lacks the scale that a
                margin needs.
        """
        seed = int(torch.randint(2**31, (), generator=generator, device=generator.device))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = cast(Buildable, self.inner()).build(dim, classes, generator)
        self._check(module, dim, classes)
        return module

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """The logits [N, C+] that the loss sees: with the plugin's margin, where it has one.

        Args:
            logits: [N, C+] predictions for the classes with training rows.
            own: [N] the label's place among these.
            counts: [C+] training rows.
            scale: what the module multiplies its cosines by.
            progress: of training, 0 to 1.
        """
        if not self.has_margin:
            return logits
        return cast(Marginal, self.inner()).margined(logits, own, counts, scale, progress)

    def _check(self, module: nn.Module, dim: int, classes: int) -> None:
        if not isinstance(module, nn.Module):
            raise PluginError(
                f"build must return a torch.nn.Module, however: that of {self.name} returns {type(module).__name__}."
            )
        if self.has_margin and not hasattr(module, "scale"):
            raise PluginError(
                f"a head with margined needs a module with the attribute scale, however: that of {self.name} has none. "
                "Set it to what the cosines are multiplied by."
            )
        was_training = module.training
        module.eval()
        with torch.no_grad():
            shape = tuple(module(_probe(module, dim)).shape)
            if shape != (2, classes):
                raise PluginError(
                    f"a head gives logits [N, C], however: {self.name} gives {list(shape)} for h [2, {dim}] and "
                    f"{classes} classes. Return one logit for each class."
                )
            if self.stacks:
                self._try_stack(module, dim)
        module.train(was_training)

    def _try_stack(self, module: nn.Module, dim: int) -> None:
        held = dict(module.named_parameters()) | dict(module.named_buffers())
        x = _probe(module, dim)
        try:
            torch.func.vmap(lambda own: torch.func.functional_call(module, own, (x,)))(
                {name: torch.stack([value, value]) for name, value in held.items()}
            )
        except Exception as error:
            raise not_stackable(self.inner(), error) from error


def _probe(module: nn.Module, dim: int) -> Tensor:
    """Two rows [2, dim] in the dtype of the module."""
    like = next(module.parameters(), torch.zeros(()))
    return torch.ones(2, dim, dtype=like.dtype, device=like.device)
