"""The frozen model that embeds images, with its recipes, and the choice of device and number type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import torch
from torch import nn

from frostbench.embedcache.backbones.pooling import PoolingName
from frostbench.embedcache.backbones.tower import Features, Tower
from frostbench.embedcache.counting import things
from frostbench.embedcache.preprocess import prepare_image
from frostbench.embedcache.recipe import Autocast, Recipe, provenance

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Forward = Callable[[torch.Tensor], Features]


class NotFiniteError(ValueError):
    """The output of a backbone contains NaN or infinity.

    Attributes:
        rows: indices of the affected images in the batch.
    """

    def __init__(self, message: str, rows: list[int]) -> None:
        super().__init__(message)
        self.rows = rows


@dataclass(frozen=True)
class Backbone:
    """A frozen model in evaluation mode.

    Attributes:
        tower: network without its classifier, in float32, and its poolings.
        forward: function from normalised images to the features that the columns need; compiled if requested.
        poolings: pooling of each column.
        recipes: recipe of each column; they differ only in the pooling.
        dims: D of each column.
        tokens: T of each column of tokens [T, D]; other columns are absent.
        device: device of the model.
        compiled: whether the forward pass is compiled with torch.compile.
    """

    tower: Tower
    forward: Forward
    poolings: Mapping[str, PoolingName]
    recipes: Mapping[str, Recipe]
    dims: Mapping[str, int]
    tokens: Mapping[str, int]
    device: torch.device
    compiled: bool = False

    @property
    def model(self) -> nn.Module:
        """The network."""
        return self.tower.model

    @property
    def recipe(self) -> Recipe:
        """Recipe of the first column, for the fields that all columns share: preparation and number type."""
        return next(iter(self.recipes.values()))

    @property
    def provenance(self) -> dict[str, str]:
        """Library versions and device, which may change the low bits."""
        facts = provenance(self.device, self.tower.libraries)
        return facts | {"compiler": "torch.compile"} if self.compiled else facts

    @property
    def batch(self) -> int:
        """Default batch size for the device; small on a CPU, so that activations stay in its caches."""
        return 16 if self.device.type == "cpu" else 64

    @property
    def runs_beside_itself(self) -> bool:
        """Whether embedding in several threads at once is safe and faster: uncompiled torch models on a CPU."""
        return self.device.type == "cpu" and not self.compiled and self.recipe.provider != "onnx"

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        """Resize and crop a decoded image uint8 [H, W, 3] to uint8 [3, S, S]; thread-safe."""
        return prepare_image(image, self.recipe)

    @torch.inference_mode()
    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Embed prepared images.

        Args:
            batch: uint8 [B, 3, S, S].

        Returns:
            By column name, a float32 tensor on the CPU, [B, D], or [B, T, D] for a token column.

        Raises:
            TypeError: the batch is not uint8; pixels that were already scaled would be divided by 255 again.
            NotFiniteError: the output of the model contains NaN or infinity.
        """
        if batch.dtype != torch.uint8:
            raise TypeError(f"a batch must be uint8 in 0..255, got {batch.dtype}. Use Backbone.prepare.")
        x = self.normalise(batch.to(self.device, non_blocking=True))
        dtype = _DTYPES[self.recipe.autocast]
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype != torch.float32):
            output = self.forward(x)
        # Pooling averages many values, so it runs in float32 under every autocast.
        features = {name: value.float() for name, value in output.items()}
        pooled = {column: self.tower.pool(features, name).float().cpu() for column, name in self.poolings.items()}
        for name, value in pooled.items():
            _check_finite(name, value, self.recipe)
        return pooled

    def normalise(self, batch: torch.Tensor) -> torch.Tensor:
        """Convert images uint8 [B, 3, S, S] on the device to float32, normalised by the recipe's mean and std."""
        mean, std = (
            torch.tensor(numbers, device=self.device).view(1, 3, 1, 1)
            for numbers in (self.recipe.mean, self.recipe.std)
        )
        x = batch.float().div_(255).sub_(mean).div_(std)
        return x.contiguous(memory_format=torch.channels_last)


def resolve_device(text: str) -> torch.device:
    """Return the device with a name such as "cpu", "cuda", "cuda:1" or "mps", if it is available.

    >>> resolve_device("cpu")
    device(type='cpu')

    Raises:
        ValueError: the name is unknown, or this machine or build of torch lacks the device.
    """
    wrong_name = f"the device must be cpu, cuda, cuda:N or mps, got {text!r}. Choose one of them."
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise ValueError(wrong_name) from error
    present = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if device.type not in present:
        raise ValueError(wrong_name)
    count = present[device.type]
    if (device.index or 0) >= count:
        fitting = device.type if count == 1 else f"{device.type}:0 to {device.type}:{count - 1}"
        advice = f"Choose {fitting}" if count else "Choose cpu, or install a driver and a build of torch for the device"
        raise ValueError(
            f"the device must be available, got {text!r}, but torch {torch.__version__} finds "
            f"{things(count, f'{device.type} device', f'{device.type} devices')}. {advice}."
        )
    return device


def resolve_autocast(autocast: str, device: torch.device, model: str) -> Autocast:
    """Return the number type of matrix products and convolutions.

    "auto" is bfloat16 on hardware with native support (CUDA devices with bfloat16, CPUs with AVX512-BF16 or AMX) and
    float32 elsewhere, where bfloat16 would only be slower.

    Raises:
        ValueError: the type is unknown, or float16 for a DINOv3 model.
    """
    if autocast == "auto":
        return "bfloat16" if _has_bfloat16(device) else "float32"
    if autocast not in ("float32", "bfloat16", "float16"):
        raise ValueError(f"autocast must be auto, float32, bfloat16 or float16, got {autocast!r}. Choose one of them.")
    if autocast == "float16" and "dinov3" in model.lower():
        refuse_float16(model)
    return autocast  # type: ignore[return-value]


def refuse_float16(model: str) -> NoReturn:
    """Raise the ValueError for DINOv3 in float16.

    See huggingface/transformers issue 41885 and NVIDIA/TensorRT issue 4723.
    """
    raise ValueError(
        f"DINOv3 models cannot run in float16, got autocast='float16' for {model}. Their activations exceed the range "
        "of float16, which gives NaN, or wrong vectors that look plausible. Choose bfloat16 or float32."
    )


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _check_finite(name: str, value: torch.Tensor, recipe: Recipe) -> None:
    finite = torch.isfinite(value).flatten(1).all(dim=1)
    if not bool(finite.all()):
        rows = torch.nonzero(~finite).flatten().tolist()
        advice = "Check that" if recipe.autocast == "float32" else "Use autocast float32, and check that"
        raise NotFiniteError(
            f"vectors must be finite, but column {name!r} of {recipe.model} has NaN or infinity in rows {rows} of the "
            f"batch under autocast {recipe.autocast}. {advice} the weights belong to the model.",
            rows,
        )
