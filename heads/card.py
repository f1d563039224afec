"""The card of a bundle: what people read of it, and what its numbers are checked against."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heads.calibrators.temperature import Temperature
from heads.ensemble import Ensemble
from heads.head import HeadSpec
from heads.posthoc import PosthocSpec
from heads.trained import TrainedHead

HEAD_FORMAT: Literal[2] = 2
ENSEMBLE_FORMAT: Literal[1] = 1
PRIOR_FIELDS = ("counts", "raw", "effective", "implied")
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Card(BaseModel):
    """The content of card.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of its bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1, 2] = HEAD_FORMAT
    """Raised when the bundle's files change their meaning; 1 had a temperature at most, which this card alone holds."""
    class_names: Names
    """In the order of the logits."""
    columns: Names
    """Vector columns that the head reads, joined in this order."""
    recipes: dict[str, dict[str, Any]]
    """Identity of each column, with its hash; empty for a head that was trained on arrays."""
    views: dict[str, dict[str, Any]] = {}
    """How further views of an image are made, by name, whose logits are averaged with the image's own."""
    head: HeadSpec
    """What the head is built of."""
    posthoc: PosthocSpec = PosthocSpec()
    """What follows the logits, as it was asked for; its numbers are among the tensors."""
    background: tuple[int, ...] = ()
    """Indices of the classes that foreground F1 leaves out, where thresholds are tuned for it."""
    calibrated: bool
    """Whether the bundle has rows that what follows the logits is fitted to anew for another prior."""
    temperature: float = Field(gt=0)
    """Under the prior that the head carries; 1 where it is not calibrated, or in another way."""
    temperature_under_uniform_prior: float = Field(gt=0)
    """Fitted anew for `--prior uniform`."""
    priors: dict[str, list[float]]
    """Class counts and priors, for the reader; the head reads them from its tensors."""
    warnings: tuple[str, ...] = ()
    """What a reader must know before trusting the probabilities."""
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

    format_version: Literal[1] = ENSEMBLE_FORMAT
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
        views={name: dict(how) for name, how in head.views.items()},
        head=head.spec,
        posthoc=head.layers.spec,
        background=head.layers.background,
        calibrated=head.calibration is not None,
        temperature=head.temperature,
        temperature_under_uniform_prior=_temperature_under_uniform_prior(head),
        priors={name: getattr(head.priors, name).tolist() for name in PRIOR_FIELDS},
        warnings=head.warnings,
        facts=dict(head.facts),
        versions=versions(),
        sha256=dict(sha256),
    )


def _temperature_under_uniform_prior(head: TrainedHead) -> float:
    """Its own where another calibration or nothing is fitted, for that would be fitted in vain."""
    if not isinstance(head.layers.spec.calibration, Temperature):
        return head.temperature
    return head.without_decisions().under(head.uniform_prior()).temperature


def versions() -> dict[str, str]:
    """Versions of the packages that a head's numbers come from."""
    found = {}
    for name in ("frostbench", "torch", "numpy", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
