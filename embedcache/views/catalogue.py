"""All policies by name, and reading one from the settings that a person writes."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from frostbench.embedcache.views.pairs import CutMix, SuperpixelMix
from frostbench.embedcache.views.policy import Policy
from frostbench.embedcache.views.single import (
    AutoAugment,
    ColourJitter,
    Crops,
    Flip,
    RandAugment,
    RandomCrop,
    TrivialAugment,
)
from frostbench.embedcache.views.transplant import Transplant

AnyPolicy = Annotated[
    Flip
    | Crops
    | RandomCrop
    | ColourJitter
    | RandAugment
    | AutoAugment
    | TrivialAugment
    | CutMix
    | SuperpixelMix
    | Transplant,
    Field(discriminator="kind"),
]
_READER: TypeAdapter[Policy] = TypeAdapter(AnyPolicy)
POLICIES: tuple[type[Policy], ...] = (
    Flip,
    Crops,
    RandomCrop,
    ColourJitter,
    RandAugment,
    AutoAugment,
    TrivialAugment,
    CutMix,
    SuperpixelMix,
    Transplant,
)


def kinds() -> tuple[str, ...]:
    """The names of all policies.

    >>> kinds()[:3]
    ('flip', 'crops', 'random_crop')
    """
    return tuple(str(policy.model_fields["kind"].default) for policy in POLICIES)


def read_policy(kind: str, settings: dict[str, Any]) -> Policy:
    """The policy of a name with settings.

    >>> read_policy("cutmix", {"alpha": 0.5}).text
    'cutmix(alpha=0.5)'

    Raises:
        ValueError: there is no such policy, or a setting is unknown or out of its bounds.
    """
    found = next((policy for policy in POLICIES if policy.model_fields["kind"].default == kind), None)
    if found is None:
        raise ValueError(f"a policy is one of {', '.join(kinds())}, however: {kind} came. Choose one of them.")
    try:
        return _READER.validate_python({"kind": kind} | settings)
    except ValidationError as error:
        told = "; ".join(": ".join([*map(str, one["loc"][1:]), one["msg"]]) for one in error.errors())
        known = ", ".join(name for name in found.model_fields if name != "kind")
        came = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise ValueError(
            f"{f'the settings of {kind} are {known}' if known else f'{kind} has no settings'}, each within its bounds, "
            f"however: {came} came ({told}). Correct it."
        ) from error
