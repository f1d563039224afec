"""Names of poolings, and the poolings of tokens and maps.

A name is `POOLING` or `POOLING:ARGUMENT`, optionally with `@LAYER`: `cls`, `gem:4`, `output:embedding`,
`patch_mean@-4`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import torch

from frostbench.embedcache.recipe import Pooling, Recipe

GEM_P: Final = 3.0
"""Initial exponent of Radenović et al. (2019)."""
GEM_FLOOR: Final = 1e-6
"""Lower bound of activations, because powers of negative numbers have no meaningful mean."""
_NAME = re.compile(r"(?P<pooling>[a-z_]+)(?::(?P<argument>[^@]+))?(?:@(?P<layer>-?\d+))?")


@dataclass(frozen=True)
class PoolingName:
    """Parsed name of a pooling.

    Attributes:
        pooling: kind of pooling.
        gem_p: exponent of gem.
        output: name of a model's output, if outputs have names.
        layer: block whose output is pooled, -2 or lower; None for the model's final output.
    """

    pooling: Pooling
    gem_p: float | None = None
    output: str | None = None
    layer: int | None = None

    def __str__(self) -> str:
        argument = self.output if self.output is not None else _exponent(self.gem_p)
        return f"{self.pooling}{argument and ':' + argument}{'' if self.layer is None else f'@{self.layer}'}"

    def fields(self) -> dict[str, Any]:
        """Return the recipe fields determined by this name."""
        named = {"pooling": self.pooling, "gem_p": self.gem_p, "output": self.output, "layer": self.layer}
        return named | {"final_norm": None if self.layer is None else True}


def _exponent(p: float | None) -> str:
    return "" if p in (None, GEM_P) else f"{p:g}"


def parse_pooling(text: str) -> PoolingName:
    """Parse the name of a pooling.

    >>> parse_pooling("gem:4@-2")
    PoolingName(pooling='gem', gem_p=4.0, output=None, layer=-2)
    >>> str(parse_pooling("gem:3"))
    'gem'

    Raises:
        ValueError: the name is invalid.
    """
    match = _NAME.fullmatch(text)
    known = get_args(Pooling)[:-1]
    pooling, argument, layer = match.group("pooling", "argument", "layer") if match else ("", None, None)
    if pooling not in known or (argument is not None and pooling not in ("gem", "output")):
        raise ValueError(
            f"a pooling must be one of {', '.join(known)}, gem with an exponent such as gem:4, a named output such as "
            f"output:embedding, or one of these from an earlier layer such as cls@-4, got {text!r}."
        )
    if layer is not None and int(layer) > -2:
        raise ValueError(
            f"layers are counted from the end, where @-2 is the last but one, got {text!r}. Leave the layer out for "
            f"the last one: {pooling}."
        )
    named = {"output": argument} if pooling == "output" else {"gem_p": _gem_p(argument, text)}
    return PoolingName(pooling, **(named if pooling in ("gem", "output") else {}), layer=layer and int(layer))  # type: ignore[arg-type]


def _gem_p(argument: str | None, text: str) -> float:
    try:
        p = float(argument or GEM_P)
    except ValueError:
        p = 0.0
    if not 1 <= p <= 100:
        raise ValueError(f"the exponent of gem must be in 1..100, got {text!r}. Leave it out for {GEM_P:g}.")
    return p


def name_of(recipe: Recipe) -> str:
    """Return the name of a recipe's pooling."""
    return str(PoolingName(recipe.pooling, recipe.gem_p, recipe.output, recipe.layer))


def choose_poolings(
    wanted: Sequence[str], available: Sequence[str], default: Sequence[str], depth: int, model: str
) -> tuple[PoolingName, ...]:
    """Return the requested or default poolings, in an order that does not depend on that of the request.

    Args:
        wanted: requested names; empty for the default.
        available: poolings of the model, without exponents and layers.
        default: poolings that are stored by default.
        depth: number of blocks that can be pooled; 0 if earlier layers cannot be pooled.
        model: name of the model, for messages.

    Raises:
        ValueError: a name is invalid, not available, or requested twice.
    """
    names = [parse_pooling(text) for text in wanted or default]
    missing = [name for name in names if not _has(name, available, depth)]
    if missing or len(set(names)) != len(names):
        layers = f" ({_layered(available)} also from a layer @-2 … @-{depth})" if depth > 1 else ""
        raise ValueError(
            f"poolings of {model} must be among {', '.join(available)}{layers}, each at most once, got "
            f"{', '.join(wanted)}. Choose among them, or leave the pooling out for {', '.join(default)}."
        )
    order = {text: index for index, text in enumerate(available)}
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
    """Pool tokens: cls is token 0, the other poolings use the tokens after the class and register tokens.

    Args:
        tokens: float32 [B, prefix + T, D].
        prefix: number of class and register tokens before the patch tokens.
        name: cls, patch_mean, gem or tokens.
        norm: normalisation applied to cls and patch_mean, for models that normalise after pooling.

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
    """Compute (mean over tokens of max(x, 1e-6)ᵖ)^(1/p), [B, T, D] to [B, D]; p = 1 averages the positive parts.

    Radenović, Tolias and Chum, "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2019, section 3.2.

    >>> generalised_mean(torch.tensor([[[1.0], [7.0]]]), 3.0)
    tensor([[5.5613]])
    """
    return tokens.clamp(min=GEM_FLOOR).pow(p).mean(dim=1).pow(1 / p)
