"""Loading the backbones named on the command line."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from frostbench.benchmarks.settings.parsing import load_yaml, parse
from frostbench.embedcache.backbones import Backbone, load_backbone
from frostbench.embedcache.backbones.preparation import Preparation

NAMED = re.compile(r"(?:(?P<prefix>[A-Za-z0-9_-]+)=)?(?P<provider>[a-z_]+):(?P<model>.+)")


def load_backbones(
    texts: Sequence[str],
    sizes: Sequence[int],
    *,
    pooling: Sequence[str] = (),
    weights: Path | None = None,
    device: str = "cpu",
    autocast: str = "auto",
    compiled: bool = False,
    preparation: Path | None = None,
    intensity_range: str | None = None,
) -> dict[str, Backbone]:
    """Load each named backbone at each size; return them by column prefix.

    Args:
        texts: `PROVIDER:MODEL` or `PREFIX=PROVIDER:MODEL`; the default prefix is the model's name.
        sizes: input sides in pixels; if empty, each model's own size.
        pooling: poolings to store per backbone.
        weights: weights file; allowed for one backbone only.
        device: torch device of the backbones.
        autocast: precision of matrix products.
        compiled: whether to compile the forward pass with torch.compile.
        preparation: file that overrides the models' image preprocessing.
        intensity_range: `LOW:HIGH`, the grey values mapped to 0 and 255 in images of more than 8 bits.

    Raises:
        ValueError: a text is not a backbone name, two backbones share a prefix, or weights are given for several.
    """
    named: dict[str, tuple[str, str]] = {}
    for text in texts:
        prefix, provider, model = _parts(text)
        if prefix in named:
            raise ValueError(
                f"Backbones of one cache need different names, but two are called {prefix!r}. Write "
                f"NAME={provider}:{model}."
            )
        named[prefix] = provider, model
    if weights is not None and len(named) > 1:
        raise ValueError(f"--weights applies to one backbone, got {len(named)}. Embed with each into its own cache.")
    prepared = Preparation() if preparation is None else parse(Preparation, load_yaml(preparation))
    if intensity_range is not None:
        prepared = prepared.model_copy(update={"intensity_range": read_range(intensity_range)})
    loaded = {}
    for prefix, (provider, model) in named.items():
        for size in sizes or (None,):
            name = f"{prefix}@{size}" if len(sizes) > 1 else prefix
            loaded[name] = load_backbone(
                provider,
                model,
                pooling=pooling,
                size=size,
                weights=weights,
                device=device,
                autocast=autocast,
                compile=compiled,
                preparation=prepared,
            )
    return loaded


def read_range(text: str) -> tuple[float, float]:
    """Parse `LOW:HIGH`.

    >>> read_range("0:4095")
    (0.0, 4095.0)

    Raises:
        ValueError: the text is not two numbers, or the first is not below the second.
    """
    try:
        low, high = (float(end) for end in text.split(":"))
    except ValueError:
        low, high = math.nan, math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(
            f"--intensity-range must be LOW:HIGH with LOW below HIGH, got {text!r}. Write 0:4095 for 12-bit data."
        )
    return low, high


def _parts(text: str) -> tuple[str, str, str]:
    """Split `PREFIX=PROVIDER:MODEL` into its parts."""
    match = NAMED.fullmatch(text)
    if match is None:
        likely = "bundled" if text.startswith("efficientnet_lite") else "timm"
        raise ValueError(f"A backbone must be named PROVIDER:MODEL, got {text!r}. Try {likely}:{text}.")
    prefix, provider, model = match.group("prefix", "provider", "model")
    return prefix or _slug(model), provider, model


def _slug(model: str) -> str:
    """Return the default column prefix of a model: the last part of its name, with special characters replaced.

    >>> _slug("facebook/dinov3-vits16-pretrain-lvd1689m")
    'dinov3-vits16-pretrain-lvd1689m'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "_", model.rstrip("/").rsplit("/", 1)[-1]).strip("_") or "backbone"
