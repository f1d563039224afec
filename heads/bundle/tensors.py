"""Conversion of a head to named tensors and back."""

from collections.abc import Mapping

import torch
from torch import Tensor

from frostbench.heads.bundle.card import PRIOR_FIELDS, Card
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import Calibration, Priors, TrainedHead


def tensors_of(head: TrainedHead) -> dict[str, Tensor]:
    """Return all tensors of a head by name."""
    tensors = {f"head.{name}": value.contiguous() for name, value in head.head.state_dict().items()}
    tensors |= {f"prior.{name}": getattr(head.priors, name) for name in PRIOR_FIELDS} | {"shift": head.shift}
    tensors |= {f"calibrator.{name}": value.contiguous() for name, value in head.layers.numbers.items()}
    if head.layers.bias is not None:
        tensors["decision.bias"] = head.layers.bias
    if head.calibration is not None:
        tensors |= {"calibration.logits": head.calibration.logits, "calibration.labels": head.calibration.labels}
    return tensors


_MAY_BE_IMPOSSIBLE = ("calibration.logits", "canary.logits", "shift", "decision.bias")
"""Tensors in which minus infinity marks an impossible class."""


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Reject tensors of a head that hold NaN or infinity.

    Raises:
        ValueError: a tensor holds one, except minus infinity for an impossible class.
    """
    for name, value in tensors.items():
        allowed = value.isneginf() if name in _MAY_BE_IMPOSSIBLE else torch.zeros((), dtype=torch.bool)
        wrong = ~(value.isfinite() | allowed)
        if count := int(wrong.sum()):
            place, are = f"{name} {list(value.shape)}", "is" if count == 1 else "are"
            raise ValueError(f"numbers must be finite, but {count} in {place} {are} not")


def head_from(card: Card, tensors: Mapping[str, Tensor]) -> TrainedHead:
    """Build the head from a card and its tensors.

    Raises:
        KeyError: a tensor is missing.
        RuntimeError: a tensor has another shape.
        ValueError: the decision rule names unknown classes.
    """
    state = _below("head.", tensors)
    shapes = {name: value.shape for name, value in state.items()}
    module = card.head.blank(len(state["preprocess.mean"]), len(card.class_names), shapes)
    module.load_state_dict(state)
    calibration = None
    if card.calibrated:
        calibration = Calibration(tensors["calibration.logits"], tensors["calibration.labels"])
    return TrainedHead(
        spec=card.head,
        head=module.eval(),
        columns=card.columns,
        class_names=card.class_names,
        priors=Priors(*(tensors[f"prior.{name}"] for name in PRIOR_FIELDS)),
        shift=tensors["shift"],
        layers=_layers(card, tensors),
        calibration=calibration,
        recipes=card.recipes,
        views=card.views,
        facts=card.facts,
    )


def _below(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}


def _layers(card: Card, tensors: Mapping[str, Tensor]) -> Layers:
    if card.format_version == 1:
        return _temperature_alone(card)
    bias = tensors["decision.bias"] if card.posthoc.decides else None
    card.rule.check_names(card.class_names)
    layers = Layers(card.posthoc, card.class_names, card.background, _below("calibrator.", tensors), bias, card.rule)
    # Call it once, so that missing parameters or wrong shapes are detected here.
    layers.decide(layers.log_probabilities(torch.zeros(1, len(card.class_names))))
    return layers


def _temperature_alone(card: Card) -> Layers:
    """Build the layers of format 1, which stored the temperature in the card."""
    if not card.calibrated and card.temperature == 1:
        return Layers(class_names=card.class_names)
    numbers = {"temperature": torch.tensor(card.temperature, dtype=torch.float64)}
    return Layers(PosthocSpec(calibration=Temperature()), card.class_names, (), numbers)
