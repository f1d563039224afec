"""All policies by name, and validation of their settings."""

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
    """Return the names of all policies.

    >>> kinds()[:3]
    ('flip', 'crops', 'random_crop')
    """
    return tuple(str(policy.model_fields["kind"].default) for policy in POLICIES)


def read_policy(kind: str, settings: dict[str, Any]) -> Policy:
    """Build a policy from its name and settings.

    >>> read_policy("cutmix", {"alpha": 0.5}).text
    'cutmix(alpha=0.5)'

    Raises:
        ValueError: the policy does not exist, or a setting is unknown or out of bounds.
    """
    policy = next((policy for policy in POLICIES if policy.model_fields["kind"].default == kind), None)
    if policy is None:
        raise ValueError(f"a policy must be one of {', '.join(kinds())}, got {kind}. Choose one of them.")
    try:
        return _READER.validate_python({"kind": kind} | settings)
    except ValidationError as error:
        reasons = "; ".join(": ".join([*map(str, item["loc"][1:]), item["msg"]]) for item in error.errors())
        known = ", ".join(name for name in policy.model_fields if name != "kind")
        given = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise ValueError(
            f"{f'the settings of {kind} are {known}, each within its bounds' if known else f'{kind} has no settings'}, "
            f"got {given} ({reasons}). Correct it."
        ) from error
