"""The card of a bundle: what people read of it, and what its numbers are checked against."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from frostbench.heads.bundle.files import digest, sealed
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import TrainedHead

HEAD_FORMAT: Literal[3] = 3
ENSEMBLE_FORMAT: Literal[2] = 2
SEALED_FROM = {"head": 3, "ensemble": 2}
"""The formats from which a card has a digest of its own."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_PENDING = "0" * 64
"""Stands for a card's digest until the rest of it is known."""
FileName = Literal["head.safetensors", "canary.png"]
PRIOR_FIELDS = ("counts", "raw", "effective", "implied")
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Card(BaseModel):
    """The content of card.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of its bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1, 2, 3] = HEAD_FORMAT
    """Raised when the bundle's files change their meaning; 1 had a temperature at most, which this card alone holds,
    and 1 and 2 had no card_sha256."""
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
    sha256: dict[FileName, Sha256]
    """Digest of each other file of the bundle; there are no others than these."""
    sizes: dict[FileName, Annotated[int, Field(ge=0)]] = {}
    """Bytes of each of these files."""
    card_sha256: Sha256 | None = None
    """Digest of all other fields of this card."""

    @model_validator(mode="after")
    def _is_whole(self) -> "Card":
        sealed = self.format_version >= SEALED_FROM["head"]
        if "head.safetensors" not in self.sha256 or (sealed and self.sizes.keys() != self.sha256.keys()):
            raise ValueError("it must state digest and size of head.safetensors and of each other file")
        if sealed and self.card_sha256 is None:
            raise ValueError("card_sha256 is missing")
        return self


class EnsembleCard(BaseModel):
    """The content of ensemble.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of its bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1, 2] = ENSEMBLE_FORMAT
    """Raised when the bundle's files change their meaning; 1 had no card_sha256."""
    class_names: Names
    """In the order of the probabilities."""
    columns: Names
    """Vector columns that any member reads."""
    members: Annotated[
        dict[Annotated[str, Field(pattern=r"^member-[0-9]{1,5}$")], Sha256], Field(min_length=2, max_length=10_000)
    ]
    """Folder of each member, a bundle, with the digest of its card; that has those of its other files."""
    facts: dict[str, Any]
    """Runs, data and metrics of the ensemble."""
    versions: dict[str, str]
    """Versions of the packages that the numbers come from."""
    card_sha256: Sha256 | None = None
    """Digest of all other fields of this card."""

    @model_validator(mode="after")
    def _is_whole(self) -> "EnsembleCard":
        if self.format_version >= SEALED_FROM["ensemble"] and self.card_sha256 is None:
            raise ValueError("card_sha256 is missing")
        return self


def ensemble_card_of(ensemble: Ensemble, members: Mapping[str, str]) -> EnsembleCard:
    """The card of an ensemble whose members' cards have these digests, by folder."""
    card = EnsembleCard(
        class_names=ensemble.class_names,
        columns=ensemble.columns,
        members=dict(members),
        facts=dict(ensemble.facts),
        versions=versions(),
        card_sha256=_PENDING,
    )
    return EnsembleCard.model_validate(sealed(card.model_dump(mode="json")))


def card_of(head: TrainedHead, files: Mapping[FileName, bytes]) -> Card:
    """The card of a head with these files beside it."""
    card = Card(
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
        sha256={name: digest(content) for name, content in files.items()},
        sizes={name: len(content) for name, content in files.items()},
        card_sha256=_PENDING,
    )
    return Card.model_validate(sealed(card.model_dump(mode="json")))


def _temperature_under_uniform_prior(head: TrainedHead) -> float:
    """Its own where another calibration or nothing is fitted, for that would be fitted in vain."""
    if not isinstance(head.layers.spec.calibration, Temperature | AutoTemperature):
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
