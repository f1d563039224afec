"""Image towers of open_clip, with the preprocessing stated for the weights, never that of the architecture.

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
    """Source of an open_clip model.

    Attributes:
        name: requested name.
        model: name in open_clip.
        pretrained: argument for open_clip, a tag or a weights file; None if the folder or repository has weights.
        preprocessing: preprocessing stated for the weights.
        tag: name under which the recipe records the weights; None for a folder or repository.
    """

    name: str
    model: str
    pretrained: str | None
    preprocessing: Mapping[str, Any]
    tag: str | None = None


def load_open_clip(name: str, weights: Path | None) -> Loaded:
    """Load the image tower of `MODEL/TAG`, `local-dir:/FOLDER` or `hf-hub:OWNER/REPOSITORY`.

    With `weights`, MODEL/TAG takes the weights from that file and the preprocessing from the tag; `hf-hub:…` takes both
    from that folder, which must hold the repository's files.

    Raises:
        ValueError: the model or tag does not exist, they do not match, or the preprocessing is not stated.
        FileNotFoundError: the weights cannot be found or downloaded.
    """
    source = find_source(name, weights)
    tower = OpenClipTower(partial(_create_tower, source), name, {"tag": source.tag})
    return tower, _config(name, source.preprocessing, tower.model.image_size)


def find_source(name: str, weights: Path | None) -> Source:
    """Return the source of a model by its name; raises the errors of `load_open_clip`."""
    schema, colon, location = name.partition(":")
    if colon and schema in ("local-dir", "hf-hub"):
        return _repository(name, schema, location, weights)
    model, slash, tag = name.partition("/")
    if not slash or not tag:
        raise ValueError(
            "an open_clip model must be named MODEL/TAG, local-dir:/FOLDER or hf-hub:OWNER/REPOSITORY, because the tag "
            f"determines the preprocessing, got {name!r}. Tags of {model}: "
            f"{', '.join(open_clip.list_pretrained_tags_by_model(model)) or 'none, see open_clip.list_pretrained()'}."
        )
    config = _tag_config(model, tag)
    if weights is not None and not weights.is_file():
        raise FileNotFoundError(
            f"weights must be an existing file, but {weights} is not. Check the path, or leave weights out."
        )
    return Source(name, model, tag if weights is None else str(weights), config, tag)


def _tag_config(model: str, tag: str) -> Mapping[str, Any]:
    """Return open_clip's configuration of a tag.

    Raises:
        ValueError: the pair does not exist, or architecture and weights have different activations.
    """
    config: dict[str, Any] = open_clip.get_pretrained_cfg(model, tag)
    architecture = open_clip.get_model_config(model)
    if not config or architecture is None:
        raise ValueError(
            f"MODEL/TAG must be a pair known to open_clip {open_clip.__version__}, got {model}/{tag}. "
            f"Tags of {model}: {', '.join(open_clip.list_pretrained_tags_by_model(model)) or 'no such model'}."
        )
    wants, has = bool(config.get("quick_gelu")), bool(architecture.get("quick_gelu"))
    if wants != has:
        other = f"{model}-quickgelu" if wants else model.removesuffix("-quickgelu")
        raise ValueError(
            f"weights require the activation they were trained with, but {tag} has {_gelu(wants)} and the architecture "
            f"{model} has {_gelu(has)}. Use {other}/{tag}."
        )
    return config


def _gelu(quick: bool) -> str:
    return "QuickGELU" if quick else "GELU"


def _repository(name: str, schema: str, location: str, weights: Path | None) -> Source:
    if schema == "local-dir" and weights is not None:
        raise ValueError(
            f"a local folder contains its weights, but {weights} was given in addition to {name}. Leave weights out."
        )
    folder = Path(location) if schema == "local-dir" else weights
    if folder is not None and not (folder / _CONFIG).is_file():
        raise FileNotFoundError(f"the folder must hold {_CONFIG}, but {folder} does not. Check the path.")
    try:
        path = folder / _CONFIG if folder is not None else Path(hf_hub_download(location, _CONFIG))
    except OSError as error:
        raise no_weights(name, error) from error
    preprocessing = json.loads(path.read_text(encoding="utf-8")).get("preprocess_cfg", {})
    return Source(name, name if folder is None else f"local-dir:{folder}", None, preprocessing)


def create_model(source: Source, size: int | None = None) -> Any:
    """Load both towers with their weights; raises the errors of `load_open_clip`."""
    try:
        return open_clip.create_model(
            source.model, source.pretrained, force_image_size=size, require_pretrained=True
        ).eval()
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        if size is not None or (source.pretrained is not None and Path(source.pretrained).is_file()):
            raise ValueError(
                f"weights must match the model and the size, but loading {source.pretrained or source.model} at "
                f"{f'{size} pixels' if size else 'its own size'} failed ({type(error).__name__}: {str(error)[:600]}). "
                "Use the checkpoint of exactly this model, or leave the size out."
            ) from error
        raise no_weights(source.name, error) from error


def _create_tower(source: Source, size: int | None) -> Any:
    return create_model(source, size).visual


def no_weights(name: str, error: Exception) -> FileNotFoundError:
    """Return an error that states how to obtain the files of a model."""
    return FileNotFoundError(
        f"the files of {name} must be in the Hugging Face cache, given by path, or downloadable, but loading failed "
        f"({type(error).__name__}: {first_line(error)}). Connect to the hub, or give a file with `--weights` (in "
        "Python `weights=`), or a folder with open_clip_config.json and weights as open_clip:local-dir:/FOLDER."
    )


def _config(name: str, preprocessing: Mapping[str, Any], image_size: Any) -> dict[str, Any]:
    """Return the input configuration of a tag or folder.

    Raises:
        ValueError: the preprocessing is incomplete, or recipes cannot express it.
    """
    missing = [key for key in _PREPROCESSING if preprocessing.get(key) is None]
    if missing:
        raise ValueError(
            f"the preprocessing must be stated with the weights, but {name} lacks {', '.join(missing)}, and the "
            "architecture's defaults would be a guess. Add the missing keys to preprocess_cfg in open_clip_config.json."
        )
    if preprocessing["resize_mode"] not in _CROPS:
        raise ValueError(
            f"resize_mode must be {' or '.join(_CROPS)}, but {name} has {preprocessing['resize_mode']!r}. Choose "
            "another model."
        )
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    return {
        "input_size": (3, height, width),
        "crop_pct": 1.0,
        "crop_mode": _CROPS[preprocessing["resize_mode"]],
        "interpolation": preprocessing["interpolation"],
        "mean": three(preprocessing["mean"]),
        "std": three(preprocessing["std"]),
    }
