"""The backbones that a command line names."""

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
    """Each named backbone at each size, by the prefix of its columns.

    Args:
        texts: `PROVIDER:MODEL`, or `PREFIX=PROVIDER:MODEL`; the prefix is the model's own name where none is given.
        sizes: sides in pixels; none takes each model's own.
        pooling: vectors to store of each.
        weights: file of weights, of the one backbone.
        device: where they run.
        autocast: type of matrix products.
        compiled: whether torch.compile makes the forward pass.
        preparation: file that says how images are made ready, where not as each model says.
        intensity_range: `LOW:HIGH`, the grey values of images of more than 8 bits that become 0 and 255.

    Raises:
        ValueError: a text names no backbone, two have one prefix, or weights are given for several.
    """
    named: dict[str, tuple[str, str]] = {}
    for text in texts:
        prefix, provider, model = _parts(text)
        if prefix in named:
            raise ValueError(
                f"backbones of one cache need names of their own, however: two are called {prefix!r}. Write "
                f"NAME={provider}:{model}."
            )
        named[prefix] = provider, model
    if weights is not None and len(named) > 1:
        raise ValueError(f"a file of weights belongs to one backbone, however: {len(named)} came. Embed them in turn.")
    asked = Preparation() if preparation is None else parse(Preparation, load_yaml(preparation))
    if intensity_range is not None:
        asked = asked.model_copy(update={"intensity_range": read_range(intensity_range)})
    found = {}
    for prefix, (provider, model) in named.items():
        for size in sizes or (None,):
            name = f"{prefix}@{size}" if len(sizes) > 1 else prefix
            found[name] = load_backbone(
                provider,
                model,
                pooling=pooling,
                size=size,
                weights=weights,
                device=device,
                autocast=autocast,
                compile=compiled,
                preparation=asked,
            )
    return found


def read_range(text: str) -> tuple[float, float]:
    """The two ends of `LOW:HIGH`.

    >>> read_range("0:4095")
    (0.0, 4095.0)

    Raises:
        ValueError: it is no such text, or the first is not below the second.
    """
    try:
        low, high = (float(end) for end in text.split(":"))
    except ValueError:
        low, high = math.nan, math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(
            f"an intensity range is LOW:HIGH with numbers of which the first is smaller, however: {text!r} came. Write "
            "0:4095 for 12-bit data."
        )
    return low, high


def _parts(text: str) -> tuple[str, str, str]:
    """Prefix, provider and model of `PREFIX=PROVIDER:MODEL`."""
    found = NAMED.fullmatch(text)
    if found is None:
        near = "bundled" if text.startswith("efficientnet_lite") else "timm"
        raise ValueError(f"a backbone is named PROVIDER:MODEL, however: {text!r} came. Try {near}:{text}.")
    prefix, provider, model = found.group("prefix", "provider", "model")
    return prefix or _slug(model), provider, model


def _slug(model: str) -> str:
    """What the columns of a model are called by default: the last part of its name, without odd signs.

    >>> _slug("facebook/dinov3-vits16-pretrain-lvd1689m")
    'dinov3-vits16-pretrain-lvd1689m'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "_", model.rstrip("/").rsplit("/", 1)[-1]).strip("_") or "backbone"
