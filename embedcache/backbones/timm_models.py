"""Any timm model by its name, with weights from the Hugging Face hub or from a file."""

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
    """A pretrained timm model without its classifier, and its data configuration.

    With `weights`, nothing is downloaded: the file is any checkpoint that timm can load into this model (safetensors or
    a state dict), with a classifier of any size or none. Every other tensor must be there.

    Raises:
        ValueError: timm has no such model, or the file does not fit it.
        FileNotFoundError: there is no such file, or the weights are neither cached nor can they be downloaded.
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
        f"the model must be one that timm {timm.__version__} knows, however: {name!r} is not"
        f"{' (close: ' + ', '.join(close) + ')' if close else ''}. `timm.list_models('*dinov3*')` lists names."
    )


def _from_hub(name: str) -> Any:
    try:
        return timm.create_model(name, pretrained=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileNotFoundError(
            f"the weights of {name} must be in the Hugging Face cache or downloadable, however: "
            f"{type(error).__name__}: {first_line(error)} Either connect to the hub (for a gated repository accept "
            "the licence on the model's page and log in), or give a file by `--weights` (in Python `weights=`), or "
            "use provider 'bundled', which needs no hub."
        ) from error


def _from_file(name: str, weights: Path) -> Any:
    if ":" in name:
        raise ValueError(
            f"weights by path go with timm's own names, however: {name!r} names its own source. Leave one of them out."
        )
    if not weights.is_file():
        raise FileNotFoundError(f"weights must be a file, however: {weights} is none. Is the path right?")
    try:
        classes = _classes_in(weights, name)
        # With equal numbers of classes in both places timm loads strictly; otherwise it would leave missing tensors
        # at their random initialisation.
        overlay = {"file": str(weights), "num_classes": classes, "label_offset": 0}
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, num_classes=classes)
    except Exception as error:
        raise ValueError(
            f"the weights must fit the model, however: {weights} cannot be loaded into {name}: "
            f"{type(error).__name__}: {str(error)[:600]} Give the checkpoint of exactly this model."
        ) from error


def _classes_in(weights: Path, name: str) -> int:
    """How many classes the classifier in a checkpoint has, 0 where it has none."""
    config = timm.models.get_pretrained_cfg(name, allow_unregistered=True)
    classifier = (config.classifier if config else None) or ()
    names: Sequence[str] = (classifier,) if isinstance(classifier, str) else classifier
    state = timm.models.load_state_dict(str(weights), weights_only=True)
    found = [state[f"{one}.weight"] for one in names if f"{one}.weight" in state]
    return int(found[0].shape[0]) if found else 0
