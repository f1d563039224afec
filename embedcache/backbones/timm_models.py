"""timm models by name, with weights from the Hugging Face hub or from a file."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import timm
import timm.data
import timm.models

from frostbench.embedcache.backbones.sizing import first_line
from frostbench.embedcache.backbones.timm_tower import TimmTower
from frostbench.embedcache.backbones.tower import Loaded


def load_timm(name: str, weights: Path | None) -> Loaded:
    """Load a pretrained timm model and its data configuration, and remove the classifier.

    With `weights`, nothing is downloaded: the file may be any checkpoint that timm can load into this model
    (safetensors or a state dict), with a classifier of any size or without one, but with all other tensors.

    Raises:
        ValueError: timm does not have the model, or the file does not match it.
        FileNotFoundError: the file does not exist, or the weights are neither cached nor downloadable.
    """
    _check_name(name)
    model = _from_hub(name) if weights is None else _from_file(name, weights)
    config: dict[str, Any] = timm.data.resolve_model_data_config(model)
    model.reset_classifier(0)
    return TimmTower(model, name), config


def _check_name(name: str) -> None:
    if ":" in name or timm.models.is_model(name.split(".")[0]):
        return
    close = difflib.get_close_matches(name, timm.list_models(), n=3)
    raise ValueError(
        f"the model must be known to timm {timm.__version__}, got {name!r}"
        f"{' (similar: ' + ', '.join(close) + ')' if close else ''}. `timm.list_models('*dinov3*')` lists names."
    )


def _from_hub(name: str) -> Any:
    try:
        return timm.create_model(name, pretrained=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileNotFoundError(
            f"the weights of {name} must be in the Hugging Face cache or downloadable, but loading failed "
            f"({type(error).__name__}: {first_line(error)}). Connect to the hub (for a gated repository, accept the "
            "licence on the model's page and log in), give a file with `--weights` (in Python `weights=`), or use "
            "provider 'bundled', which needs no hub."
        ) from error


def _from_file(name: str, weights: Path) -> Any:
    if ":" in name:
        raise ValueError(
            f"weights by path require a model name of timm, but {name!r} names a source of weights. Leave weights out, "
            "or use timm's name of the model."
        )
    if not weights.is_file():
        raise FileNotFoundError(
            f"weights must be a file, but {weights} does not exist or is not a file. Check the path."
        )
    try:
        classes = _classes_in(weights, name)
        # timm loads strictly only if checkpoint and model have the same number of classes; otherwise it would leave
        # missing tensors at their random initialisation.
        overlay = {"file": str(weights), "num_classes": classes, "label_offset": 0}
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, num_classes=classes)
    except Exception as error:
        raise ValueError(
            f"the weights must match the model, but {weights} cannot be loaded into {name} "
            f"({type(error).__name__}: {str(error)[:600]}). Use the checkpoint of exactly this model."
        ) from error


def _classes_in(weights: Path, name: str) -> int:
    """Return the number of classes of the classifier in a checkpoint, or 0 if it has no classifier."""
    config = timm.models.get_pretrained_cfg(name, allow_unregistered=True)
    classifier = (config.classifier if config else None) or ()
    names: Sequence[str] = (classifier,) if isinstance(classifier, str) else classifier
    state = timm.models.load_state_dict(str(weights), weights_only=True)
    return next((int(state[key].shape[0]) for name in names if (key := f"{name}.weight") in state), 0)
