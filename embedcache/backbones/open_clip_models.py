"""Image towers of open_clip, each with the preprocessing of its weights and never of its architecture.

Ilharco et al., "OpenCLIP" (2021), which loads CLIP (Radford et al., ICML 2021), SigLIP 2 (Tschannen et al., 2025),
Perception Encoder (Bolya et al., NeurIPS 2025) and others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import open_clip
from huggingface_hub import hf_hub_download

from frostbench.embedcache.backbones.open_clip_tower import OpenClipTower
from frostbench.embedcache.backbones.preparation import three
from frostbench.embedcache.backbones.sizing import first_line
from frostbench.embedcache.backbones.tower import Loaded

_CONFIG = "open_clip_config.json"
_CROPS = {"shortest": "center", "squash": "squash"}
_PREPROCESSING = ("mean", "std", "interpolation", "resize_mode")


@dataclass(frozen=True)
class Source:
    """Where a model of open_clip comes from.

    Attributes:
        name: as it was asked for.
        model: what open_clip calls it.
        pretrained: a tag or a file; None where the place brings its weights.
        told: the preprocessing that is stated with the weights.
        tag: the name of the weights, None of a folder or repository.
    """

    name: str
    model: str
    pretrained: str | None
    told: Mapping[str, Any]
    tag: str | None = None


def load_open_clip(name: str, weights: Path | None) -> Loaded:
    """The image tower of `MODEL/TAG`, `local-dir:/FOLDER` or `hf-hub:OWNER/REPOSITORY`.

    With `weights`, MODEL/TAG takes them from a file and the preprocessing from the tag, and `hf-hub:…` takes both from
    a folder that holds the repository's files.

    Raises:
        ValueError: there is no such model or tag, they do not go together, or the preprocessing is not stated.
        FileNotFoundError: the weights cannot be had.
    """
    source = find_source(name, weights)
    tower = OpenClipTower(partial(_create_tower, source), name, {"tag": source.tag})
    return tower, _config(name, source.told, tower.model.image_size)


def find_source(name: str, weights: Path | None) -> Source:
    """Where a model comes from, by its name; errors as `load_open_clip`."""
    schema, colon, place = name.partition(":")
    if colon and schema in ("local-dir", "hf-hub"):
        return _repository(name, schema, place, weights)
    model, slash, tag = name.partition("/")
    if not slash or not tag:
        raise ValueError(
            "an open_clip model is named MODEL/TAG, local-dir:/FOLDER or hf-hub:OWNER/REPOSITORY, since the tag "
            f"decides how images are prepared, however: {name!r} came. Tags of {model}: "
            f"{', '.join(open_clip.list_pretrained_tags_by_model(model)) or 'none, see open_clip.list_pretrained()'}."
        )
    told = _tag_config(model, tag)
    if weights is not None and not weights.is_file():
        raise FileNotFoundError(f"weights must be a file, however: {weights} is none. Is the path right?")
    return Source(name, model, tag if weights is None else str(weights), told, tag)


def _tag_config(model: str, tag: str) -> Mapping[str, Any]:
    """What open_clip says of a tag.

    Raises:
        ValueError: there is no such pair, or the architecture has another activation than the weights.
    """
    told: dict[str, Any] = open_clip.get_pretrained_cfg(model, tag)
    architecture = open_clip.get_model_config(model)
    if not told or architecture is None:
        raise ValueError(
            f"MODEL/TAG must be a pair that open_clip {open_clip.__version__} knows, however: {model}/{tag} is none. "
            f"Tags of {model}: {', '.join(open_clip.list_pretrained_tags_by_model(model)) or 'no such model'}."
        )
    wants, has = bool(told.get("quick_gelu")), bool(architecture.get("quick_gelu"))
    if wants != has:
        other = f"{model}-quickgelu" if wants else model.removesuffix("-quickgelu")
        raise ValueError(
            f"weights need the activation that they were trained with, however: {tag} has {_gelu(wants)} and the "
            f"architecture {model} has {_gelu(has)}. Name it {other}/{tag}."
        )
    return told


def _gelu(quick: bool) -> str:
    return "QuickGELU" if quick else "GELU"


def _repository(name: str, schema: str, place: str, weights: Path | None) -> Source:
    if schema == "local-dir" and weights is not None:
        raise ValueError(
            f"a local folder brings its weights, however: {weights} was given besides {name}. Leave one of them out."
        )
    folder = Path(place) if schema == "local-dir" else weights
    if folder is not None and not (folder / _CONFIG).is_file():
        raise FileNotFoundError(f"the folder must hold {_CONFIG}, however: {folder} does not. Is the path right?")
    try:
        path = folder / _CONFIG if folder is not None else Path(hf_hub_download(place, _CONFIG))
    except OSError as error:
        raise no_weights(name, error) from error
    told = json.loads(path.read_text(encoding="utf-8")).get("preprocess_cfg", {})
    return Source(name, name if folder is None else f"local-dir:{folder}", None, told)


def create_model(source: Source, size: int | None = None) -> Any:
    """Both towers, with their weights; errors as `load_open_clip`."""
    try:
        return open_clip.create_model(
            source.model, source.pretrained, force_image_size=size, require_pretrained=True
        ).eval()
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        if size is not None or (source.pretrained is not None and Path(source.pretrained).is_file()):
            raise ValueError(
                f"weights must fit the model and its size, however: {source.pretrained or source.model} at "
                f"{size or 'its own'} pixels gives {type(error).__name__}: {str(error)[:600]} Give the checkpoint of "
                "exactly this model, or leave the size out."
            ) from error
        raise no_weights(source.name, error) from error


def _create_tower(source: Source, size: int | None) -> Any:
    return create_model(source, size).visual


def no_weights(name: str, error: Exception) -> FileNotFoundError:
    """The error that says how files of a model can be had."""
    return FileNotFoundError(
        f"the weights of {name} must be in the Hugging Face cache, given by path, or downloadable, however: "
        f"{type(error).__name__}: {first_line(error)} Either connect to the hub, or give a file by `--weights` (in "
        "Python `weights=`), or a folder with open_clip_config.json and weights as open_clip:local-dir:/FOLDER."
    )


def _config(name: str, told: Mapping[str, Any], image_size: Any) -> dict[str, Any]:
    """How a tag or a folder wants its images.

    Raises:
        ValueError: it does not say all of it, or says something that recipes do not know.
    """
    missing = [key for key in _PREPROCESSING if told.get(key) is None]
    if missing:
        raise ValueError(
            f"the preprocessing must be stated with the weights, however: {name} leaves {', '.join(missing)} open, and "
            "the architecture's own would be a guess. Add them to preprocess_cfg of open_clip_config.json."
        )
    if told["resize_mode"] not in _CROPS:
        raise ValueError(
            f"images are scaled by resize_mode {' or '.join(_CROPS)}, however: {name} wants {told['resize_mode']!r}. "
            "Choose another model."
        )
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    return {
        "input_size": (3, height, width),
        "crop_pct": 1.0,
        "crop_mode": _CROPS[told["resize_mode"]],
        "interpolation": told["interpolation"],
        "mean": three(told["mean"]),
        "std": three(told["std"]),
    }
