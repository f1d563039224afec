"""The names of poolings, and how each makes vectors of tokens or maps.

A name is `POOLING`, `POOLING:ARGUMENT`, or either with `@LAYER`: `cls`, `gem:4`, `output:embedding`, `patch_mean@-4`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import torch

from frostbench.embedcache.recipe import Pooling, Recipe

GEM_P: Final = 3.0
"""The exponent of Radenović et al. (2019) before training."""
GEM_FLOOR: Final = 1e-6
"""What smaller activations are raised to, since a power of a negative number has no mean of use."""
_NAME = re.compile(r"(?P<pooling>[a-z_]+)(?::(?P<argument>[^@]+))?(?:@(?P<layer>-?\d+))?")


@dataclass(frozen=True)
class PoolingName:
    """A pooling that was asked for.

    Attributes:
        pooling: what is done.
        gem_p: the exponent of gem.
        output: the name of a model's output, where outputs have names.
        layer: which block's output is pooled, -2 or lower; None for the model's own end.
    """

    pooling: Pooling
    gem_p: float | None = None
    output: str | None = None
    layer: int | None = None

    def __str__(self) -> str:
        argument = self.output if self.output is not None else _exponent(self.gem_p)
        return f"{self.pooling}{argument and ':' + argument}{'' if self.layer is None else f'@{self.layer}'}"

    def fields(self) -> dict[str, Any]:
        """The fields of a recipe that this name decides."""
        named = {"pooling": self.pooling, "gem_p": self.gem_p, "output": self.output, "layer": self.layer}
        return named | {"final_norm": None if self.layer is None else True}


def _exponent(p: float | None) -> str:
    return "" if p in (None, GEM_P) else f"{p:g}"


def parse_pooling(text: str) -> PoolingName:
    """Read the name of a pooling.

    >>> parse_pooling("gem:4@-2")
    PoolingName(pooling='gem', gem_p=4.0, output=None, layer=-2)
    >>> str(parse_pooling("gem:3"))
    'gem'

    Raises:
        ValueError: it is no such name.
    """
    found = _NAME.fullmatch(text)
    known = get_args(Pooling)[:-1]
    pooling, argument, layer = found.group("pooling", "argument", "layer") if found else ("", None, None)
    if pooling not in known or (argument is not None and pooling not in ("gem", "output")):
        raise ValueError(
            f"a pooling is one of {', '.join(known)}, gem with an exponent such as gem:4, an output by its name such "
            f"as output:embedding, or one of these from an earlier layer such as cls@-4, however: {text!r} came."
        )
    if layer is not None and int(layer) > -2:
        raise ValueError(
            f"layers are counted from the end, @-2 is the last but one, however: {text!r} came. For the last layer "
            f"leave it out: {pooling}."
        )
    named = {"output": argument} if pooling == "output" else {"gem_p": _gem_p(argument, text)}
    return PoolingName(pooling, **(named if pooling in ("gem", "output") else {}), layer=layer and int(layer))  # type: ignore[arg-type]


def _gem_p(argument: str | None, text: str) -> float:
    try:
        p = float(argument or GEM_P)
    except ValueError:
        p = 0.0
    if not 1 <= p <= 100:
        raise ValueError(f"the exponent of gem lies in 1..100, however: {text!r} came. Leave it out for {GEM_P:g}.")
    return p


def name_of(recipe: Recipe) -> str:
    """The name under which a recipe's pooling is asked for."""
    return str(PoolingName(recipe.pooling, recipe.gem_p, recipe.output, recipe.layer))


def choose_poolings(
    wanted: Sequence[str], available: Sequence[str], default: Sequence[str], depth: int, model: str
) -> tuple[PoolingName, ...]:
    """The poolings to store: those that were asked for, or the default ones, in one order whatever was asked.

    Args:
        wanted: names, or none for the default.
        available: what the model has, without exponents and layers.
        default: what is stored where nothing is asked for.
        depth: how many blocks can be told apart; 0 where no earlier layer can be pooled.
        model: its name, for messages.

    Raises:
        ValueError: a name is wrong, the model lacks it, or one is asked for twice.
    """
    names = [parse_pooling(text) for text in wanted or default]
    missing = [name for name in names if not _has(name, available, depth)]
    if missing or len(set(names)) != len(names):
        layers = f", each of {_layered(available)} also from a layer @-2 … @-{depth}" if depth > 1 else ""
        raise ValueError(
            f"{model} has the poolings {', '.join(available)}{layers}; each can be stored once, however: "
            f"{', '.join(wanted)} was asked for. Choose among those that it has, or none for {', '.join(default)}."
        )
    order = {text: place for place, text in enumerate(available)}
    return tuple(sorted(names, key=lambda name: (order[_base(name)], name.gem_p or 0, -(name.layer or 0))))


def _base(name: PoolingName) -> str:
    return str(PoolingName(name.pooling, output=name.output))


def _has(name: PoolingName, available: Iterable[str], depth: int) -> bool:
    if _base(name) not in available:
        return False
    return name.layer is None or (name.pooling in ("cls", "patch_mean", "gem", "tokens") and -name.layer <= depth)


def _layered(available: Iterable[str]) -> str:
    return ", ".join(text for text in available if _has(PoolingName(text, layer=-1), available, 1))  # type: ignore[arg-type]


def pool_tokens(
    tokens: torch.Tensor, prefix: int, name: PoolingName, norm: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> torch.Tensor:
    """Vectors of tokens: cls is token 0, the others see the tokens behind the prefix of class and register tokens.

    Args:
        tokens: float32 [B, prefix + T, D].
        prefix: how many stand before the patch tokens.
        name: cls, patch_mean, gem or tokens.
        norm: of models that normalise after pooling: applied to cls and patch_mean.

    Returns:
        [B, D], or [B, T, D] for tokens.
    """
    if name.pooling == "tokens":
        return tokens[:, prefix:]
    if name.pooling == "gem":
        return generalised_mean(tokens[:, prefix:], name.gem_p or GEM_P)
    vectors = tokens[:, 0] if name.pooling == "cls" else tokens[:, prefix:].mean(dim=1)
    return vectors if norm is None else norm(vectors)


def generalised_mean(tokens: torch.Tensor, p: float) -> torch.Tensor:
    """(mean over tokens of max(x, 1e-6)ᵖ)^(1/p), [B, T, D] to [B, D]; p = 1 is the mean of what is positive.

    Radenović, Tolias and Chum, "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2019, section 3.2.

    >>> generalised_mean(torch.tensor([[[1.0], [7.0]]]), 3.0)
    tensor([[5.5613]])
    """
    return tokens.clamp(min=GEM_FLOOR).pow(p).mean(dim=1).pow(1 / p)
