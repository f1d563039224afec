"""Class vectors from the text tower of an open_clip model, for zero-shot classification."""

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
from frostbench.embedcache.counting import things
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.writing import new_file

DEFAULT_TEMPLATES: Final = ("a photo of a {}.",)
BATCH: Final = 256
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class ClassTexts:
    """Embeddings of class names by a text tower.

    Attributes:
        class_names: class names as given, [C].
        weights: unit vector of each class, float32 [C, D], in the space of `projection`.
        scale: exp(logit_scale), the factor on cosines with which the towers were trained.
        bias: bias that SigLIP models add to each logit, 0 for other models; it does not affect a softmax.
        image_sha256: `weights_sha256` of the image tower whose vectors match these weights.
    """

    class_names: tuple[str, ...]
    weights: np.ndarray
    scale: float
    bias: float
    image_sha256: str

    def save(self, path: Path) -> None:
        """Write the .npz file that the head `zero_shot` reads, with scale, bias and image_sha256, atomically.

        Raises:
            OutputError: the name does not end in .npz, or the file cannot be written.
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
    """Embed class names as the normalised mean of the unit vectors of each class's prompts.

    Radford et al., "Learning transferable visual models from natural language supervision" (CLIP), ICML 2021, section
    3.1.4. Prompts of SigLIP models, and of other models whose tokenizer has clean="canonicalize", are lower case
    without punctuation, as in training.

    Args:
        model: name of the model for provider open_clip.
        class_names: class names; underscores count as spaces.
        templates: sentences with one {} as the placeholder for the name.
        weights: file or folder to load the weights from instead of the hub.
        device: device to run on.

    Raises:
        ValueError: a template does not have exactly one {}, there are no names or templates, or open_clip lacks the
            model.
        FileNotFoundError: weights or tokenizer cannot be found or downloaded.
    """
    prompts = make_prompts(class_names, templates)
    target, source = resolve_device(device), find_source(model, weights)
    towers = create_model(source).to(target)
    try:
        tokenizer = open_clip.get_tokenizer(source.model)
    except (OSError, ValueError) as error:
        raise no_weights(f"the tokenizer of {model}", error) from error
    # Tokenizers canonicalise if configured to; prompts of SigLIP models loaded by name always need it.
    if not source.model.startswith("local-dir:") and "siglip" in source.model.lower():
        prompts = [canonicalise(prompt) for prompt in prompts]
    means = _encode(towers, tokenizer, prompts, target).reshape(len(class_names), len(templates), -1).mean(dim=1)
    bias = getattr(towers, "logit_bias", None)
    return ClassTexts(
        class_names=tuple(class_names),
        weights=torch.nn.functional.normalize(means, dim=1).numpy(),
        scale=math.exp(float(towers.logit_scale.detach())),
        bias=0.0 if bias is None else float(bias.detach()),
        image_sha256=weights_sha256(towers.visual),
    )


@torch.inference_mode()
def _encode(towers: Any, tokenizer: Any, prompts: Sequence[str], device: torch.device) -> torch.Tensor:
    """Return unit vectors [P, D], float32 on the CPU."""
    parts = [
        towers.encode_text(tokenizer(prompts[start : start + BATCH]).to(device), normalize=True).float().cpu()
        for start in range(0, len(prompts), BATCH)
    ]
    return torch.cat(parts)


def make_prompts(class_names: Sequence[str], templates: Iterable[str]) -> list[str]:
    """Fill the templates with each class name, class by class.

    >>> make_prompts(["blue_tit"], ["a {}.", "the {}"])
    ['a blue tit.', 'the blue tit']

    Raises:
        ValueError: there are no names or templates, or a template does not have exactly one {}.
    """
    templates = list(templates)
    wrong = [template for template in templates if template.count("{}") != 1]
    if wrong or not templates or not class_names:
        raise ValueError(
            "prompts need class names, and templates with one {} for the name, got "
            f"{things(len(class_names), 'name', 'names')} and the templates {wrong or templates}. Write templates such "
            f"as {DEFAULT_TEMPLATES[0]!r}."
        )
    names = [name.replace("_", " ") for name in class_names]
    return [template.replace("{}", name) for name in names for template in templates]


def canonicalise(text: str) -> str:
    """Convert text to lower case without punctuation and with single spaces.

    >>> canonicalise("A photo of a Blue-tit,  (male).")
    'a photo of a bluetit male'
    """
    return " ".join(text.replace("_", " ").translate(_NO_PUNCTUATION).lower().split())
