"""The card of a bundle: what people read of it, and what its numbers are checked against."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heads.ensemble import Ensemble
from heads.head import HeadSpec
from heads.trained import TrainedHead

FORMAT_VERSION: Literal[1] = 1
PRIOR_FIELDS = ("counts", "raw", "effective", "implied")
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Card(BaseModel):
    """The content of card.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of its bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1] = FORMAT_VERSION
    """Raised when the bundle's files change their meaning."""
    class_names: Names
    """In the order of the logits."""
    columns: Names
    """Vector columns that the head reads, joined in this order."""
    recipes: dict[str, dict[str, Any]]
    """Identity of each column, with its hash; empty for a head that was trained on arrays."""
    head: HeadSpec
    """What the head is built of."""
    calibrated: bool
    """Whether temperatures are fitted for it."""
    temperature: float = Field(gt=0)
    """Under the prior that the head carries."""
    temperature_under_uniform_prior: float = Field(gt=0)
    """Fitted anew for `--prior uniform`."""
    priors: dict[str, list[float]]
    """Class counts and priors, for the reader; the head reads them from its tensors."""
    facts: dict[str, Any]
    """Run, data, metrics and environment of the training."""
    versions: dict[str, str]
    """Versions of the packages that the numbers come from."""
    sha256: dict[str, str]
    """Digest of each other file of the bundle."""


class EnsembleCard(BaseModel):
    """The content of ensemble.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of its bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1] = FORMAT_VERSION
    """Raised when the bundle's files change their meaning."""
    class_names: Names
    """In the order of the probabilities."""
    columns: Names
    """Vector columns that any member reads."""
    members: Annotated[dict[Annotated[str, Field(pattern=r"^member-\d+$")], str], Field(min_length=2)]
    """Folder of each member, a bundle, with the digest of its card; that has those of its other files."""
    facts: dict[str, Any]
    """Runs, data and metrics of the ensemble."""
    versions: dict[str, str]
    """Versions of the packages that the numbers come from."""


def ensemble_card_of(ensemble: Ensemble, members: Mapping[str, str]) -> EnsembleCard:
    """The card of an ensemble whose members' cards have these digests, by folder."""
    return EnsembleCard(
        class_names=ensemble.class_names,
        columns=ensemble.columns,
        members=dict(members),
        facts=dict(ensemble.facts),
        versions=versions(),
    )


def card_of(head: TrainedHead, sha256: Mapping[str, str]) -> Card:
    """The card of a head whose files have these digests."""
    return Card(
        class_names=head.class_names,
        columns=head.columns,
        recipes={name: dict(recipe) for name, recipe in head.recipes.items()},
        head=head.spec,
        calibrated=head.calibration is not None,
        temperature=head.temperature,
        temperature_under_uniform_prior=head.temperature_for(head.uniform_prior()),
        priors={name: getattr(head.priors, name).tolist() for name in PRIOR_FIELDS},
        facts=dict(head.facts),
        versions=versions(),
        sha256=dict(sha256),
    )


def versions() -> dict[str, str]:
    """Versions of the packages that a head's numbers come from."""
    found = {}
    for name in ("frostbench", "torch", "numpy", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
