"""A trained head with a decision: what `frostbench predict` uses after an export."""

from dataclasses import replace

import torch

from frostbench.benchmarks.decisions.decision import Decision
from frostbench.heads.posthoc.decisions.shift import GivenShift, NoShift
from frostbench.heads.trained import TrainedHead


def with_decision(head: TrainedHead, decision: Decision) -> TrainedHead:
    """Return the head with a decision: another prior, cut-offs as a given shift, and a rule for the rest.

    The prior is that of `TrainedHead.under`, so calibration is refitted for it.

    Raises:
        ValueError: the decision names unknown classes, a fitted shift forbids cut-offs, or the head cannot take the
            prior.
    """
    decision.check_names(head.class_names)
    target = decision.target(head.priors.implied.double().numpy(), head.class_names)
    moved = head if target is None else head.under(torch.from_numpy(target))
    layers, offsets = moved.layers, decision.offsets(head.class_names)
    if offsets is not None:
        shift = layers.spec.shift
        if not isinstance(shift, NoShift | GivenShift):
            raise ValueError(
                "Cut-offs are given shifts, but this head's shift is fitted to a required recall or precision. Remove "
                "the cut-offs, or train the head without posthoc.shift."
            )
        own = shift.logits if isinstance(shift, GivenShift) else {}
        added = dict(zip(head.class_names, offsets.tolist(), strict=True))
        given = GivenShift(
            logits={name: own.get(name, 0.0) + value for name, value in added.items() if value}
            | {name: value for name, value in own.items() if not added.get(name)}
        )
        bias = torch.from_numpy(offsets) if layers.bias is None else layers.bias + torch.from_numpy(offsets)
        layers = replace(layers, spec=layers.spec.model_copy(update={"shift": given}), bias=bias)
    facts = dict(head.facts) | {"decision": decision.model_dump(mode="json")}
    return replace(moved, layers=replace(layers, rule=decision.rule), facts=facts)
