"""A user-defined classifier from a plugin file."""

from typing import ClassVar, Literal, Protocol, cast

import torch
from pydantic import Field, JsonValue
from torch import Tensor, nn

from frostbench.heads.classifier import Classifier, Number
from frostbench.heads.plugin_files import PluginError, has_method, not_stackable
from frostbench.heads.plugin_spec import PluginSpec
from frostbench.heads.spec import FILE, Spec


class Buildable(Protocol):
    """Interface of a plugin's classifier."""

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Module:
        """Return a module from h [N, dim] to logits [N, classes]."""
        ...


class Marginal(Protocol):
    """Interface of a plugin's classifier that applies a margin in training."""

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """Return the logits [N, C+] that the loss sees."""
        ...


class ExternalClassifier(PluginSpec, Classifier):
    """A classifier from a Python file, trained with gradient steps; docs/plugins.md describes such a file.

    The file is run only if the user names it, never because this spec is read, its head built or its bundle loaded.
    """

    methods: ClassVar[tuple[str, ...]] = ("build",)
    kind: Literal["external"] = "external"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Plugin head: file")
    """Path to the .py file, relative to the current directory."""
    name: str = Field(default="", max_length=200, title="Plugin head: class")
    """Name of the class in that file: a frostbench.heads.spec.Spec with the method build."""
    sha256: str = Field(default="", max_length=64, title="Plugin head: SHA-256 of the file")
    """SHA-256 of the file; if empty, it is computed from the file."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=100, title="Plugin head: options")
    """Options of the plugin's class, which checks them."""

    def checked(self) -> Spec:
        """Return the plugin's own spec; the module is checked in `build`, where its widths are known."""
        return self.inner()

    @property
    def has_margin(self) -> bool:
        """Whether it changes its logits in training."""
        return has_method(type(self.inner()), "margined")

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Module:
        """Build the plugin's module with `dim` inputs and `classes` outputs.

        Meanwhile, torch's global generator is seeded from generator, so that modules that draw from the former, such as
        nn.Linear, are reproducible too.

        Raises:
            PluginError: as `inner`; or the result is no module, does not return logits [N, C], fails under vmap, or
                lacks the scale that a margin needs.
        """
        seed = int(torch.randint(2**31, (), generator=generator, device=generator.device))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = cast(Buildable, self.inner()).build(dim, classes, generator)
        self._check(module, dim, classes)
        return module

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """Return the logits [N, C+] that the loss sees, with the plugin's margin if it has one; see `Classifier`."""
        if not self.has_margin:
            return logits
        return cast(Marginal, self.inner()).margined(logits, own, counts, scale, progress)

    def _check(self, module: nn.Module, dim: int, classes: int) -> None:
        if not isinstance(module, nn.Module):
            raise PluginError(
                f"`build` must return a torch.nn.Module, but that of {self.name} returns {type(module).__name__}."
            )
        if self.has_margin and not hasattr(module, "scale"):
            raise PluginError(
                "A plugin head that defines `margined` must build a module with the attribute `scale`, but that of "
                f"{self.name} has none. Set `scale` to the factor on the cosines."
            )
        was_training = module.training
        module.eval()
        with torch.no_grad():
            shape = tuple(module(_probe(module, dim)).shape)
            if shape != (2, classes):
                raise PluginError(
                    f"A head must return logits [N, C], but {self.name} returns {list(shape)} for h [2, {dim}] and "
                    f"{classes} classes. Return one logit for each class."
                )
            if self.stacks:
                self._try_stack(module, dim)
        module.train(was_training)

    def _try_stack(self, module: nn.Module, dim: int) -> None:
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        x = _probe(module, dim)
        try:
            torch.func.vmap(lambda params: torch.func.functional_call(module, params, (x,)))(
                {name: torch.stack([value, value]) for name, value in state.items()}
            )
        except Exception as error:
            raise not_stackable(self.inner(), error) from error


def _probe(module: nn.Module, dim: int) -> Tensor:
    """Return two rows [2, dim] in the dtype of the module."""
    like = next(module.parameters(), torch.zeros(()))
    return torch.ones(2, dim, dtype=like.dtype, device=like.device)
