"""Class vectors from the text tower of an open_clip model: a classifier that has seen no image."""

import math
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import open_clip
import torch

from frostbench.embedcache.backbones.backbone import resolve_device
from frostbench.embedcache.backbones.hashing import weights_sha256
from frostbench.embedcache.backbones.open_clip_models import create_model, find_source, no_weights
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.writing import new_file

DEFAULT_TEMPLATES: Final = ("a photo of a {}.",)
BATCH: Final = 256
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class ClassTexts:
    """What a text tower makes of class names.

    Attributes:
        class_names: as they were given, [C].
        weights: a unit vector of each class, float32 [C, D], in the space of `projection`.
        scale: exp(logit_scale), the factor on cosines that the towers were trained with.
        bias: what SigLIP models add to each logit; 0 of others. It is the same for all classes, so a softmax does not
            see it.
        image_sha256: of the image tower: the `weights_sha256` of recipes whose vectors these weights go with.
    """

    class_names: tuple[str, ...]
    weights: np.ndarray
    scale: float
    bias: float
    image_sha256: str

    def save(self, path: Path) -> None:
        """Write the .npz file that the head `zero_shot` reads, whole or not at all; scale, bias and image_sha256 too.

        Raises:
            OutputError: the name does not end in .npz, or nothing can be written there.
        """
        check_file(path, (".npz",), "a file of class vectors", makes_folder=True)
        with new_file(path) as partial, partial.open("wb") as file:
            np.savez(
                file,
                weights=self.weights,
                class_names=np.array(self.class_names),
                scale=np.float64(self.scale),
                bias=np.float64(self.bias),
                image_sha256=np.array(self.image_sha256),
            )


def embed_classes(
    model: str,
    class_names: Sequence[str],
    *,
    templates: Sequence[str] = DEFAULT_TEMPLATES,
    weights: Path | None = None,
    device: str = "cpu",
) -> ClassTexts:
    """The mean of the unit vectors of each class's prompts, scaled to length one again.

    Radford et al., "Learning transferable visual models from natural language supervision" (CLIP), ICML 2021, section
    3.1.4. Prompts of SigLIP models are lower case without punctuation, as in their training; so are those of any model
    whose tokenizer is set to clean="canonicalize".

    Args:
        model: as provider open_clip names it.
        class_names: any text; underscores count as spaces.
        templates: sentences with {} where the name goes.
        weights: file or folder to take the weights from instead of the hub.
        device: where the model runs.

    Raises:
        ValueError: a template has not one {}, there are no names, or the model is not one of open_clip.
        FileNotFoundError: weights or tokenizer cannot be had.
    """
    prompts = make_prompts(class_names, templates)
    where, source = resolve_device(device), find_source(model, weights)
    whole = create_model(source).to(where)
    try:
        tokenizer = open_clip.get_tokenizer(source.model)
    except (OSError, ValueError) as error:
        raise no_weights(f"{model} (its tokenizer)", error) from error
    # Tokenizers clean by themselves where their configuration says so; a name says it too, a path does not.
    if not source.model.startswith("local-dir:") and "siglip" in source.model.lower():
        prompts = [canonicalise(prompt) for prompt in prompts]
    means = _encode(whole, tokenizer, prompts, where).reshape(len(class_names), len(templates), -1).mean(dim=1)
    bias = getattr(whole, "logit_bias", None)
    return ClassTexts(
        class_names=tuple(class_names),
        weights=torch.nn.functional.normalize(means, dim=1).numpy(),
        scale=math.exp(float(whole.logit_scale.detach())),
        bias=0.0 if bias is None else float(bias.detach()),
        image_sha256=weights_sha256(whole.visual),
    )


@torch.inference_mode()
def _encode(whole: Any, tokenizer: Any, prompts: Sequence[str], device: torch.device) -> torch.Tensor:
    """Unit vectors [P, D], float32 on the CPU."""
    parts = [
        whole.encode_text(tokenizer(prompts[start : start + BATCH]).to(device), normalize=True).float().cpu()
        for start in range(0, len(prompts), BATCH)
    ]
    return torch.cat(parts)


def make_prompts(class_names: Sequence[str], templates: Iterable[str]) -> list[str]:
    """Every template for the first class, then for the next.

    >>> make_prompts(["blue_tit"], ["a {}.", "the {}"])
    ['a blue tit.', 'the blue tit']

    Raises:
        ValueError: there are no names or templates, or a template has not one {}.
    """
    shapes = list(templates)
    wrong = [shape for shape in shapes if shape.count("{}") != 1]
    if wrong or not shapes or not class_names:
        raise ValueError(
            f"prompts need class names, and templates with one {{}} for the name, however: {len(class_names)} names "
            f"and the templates {wrong or shapes} came. Write templates such as {DEFAULT_TEMPLATES[0]!r}."
        )
    spoken = [name.replace("_", " ") for name in class_names]
    return [shape.replace("{}", name) for name in spoken for shape in shapes]


def canonicalise(text: str) -> str:
    """Lower case, no punctuation, single spaces.

    >>> canonicalise("A photo of a Blue-tit,  (male).")
    'a photo of a bluetit male'
    """
    return " ".join(text.replace("_", " ").translate(_NO_PUNCTUATION).lower().split())
