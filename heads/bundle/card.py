"""The card of a bundle: metadata for readers, and digests for checks."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from frostbench.heads.bundle.files import digest, sealed
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.decisions.rule import DecisionRule
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import TrainedHead

HEAD_FORMAT: Literal[4] = 4
ENSEMBLE_FORMAT: Literal[2] = 2
SEALED_FROM = {"head": 3, "ensemble": 2}
"""First formats whose cards have their own digest."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_PENDING = "0" * 64
"""Placeholder for a card's digest until its other fields are known."""
FileName = Literal["head.safetensors", "canary.png"]
PRIOR_FIELDS = ("counts", "raw", "effective", "implied")
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Card(BaseModel):
    """The content of card.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1, 2, 3, 4] = HEAD_FORMAT
    """Incremented when the meaning of the files changes; format 1 had a temperature as its only post-hoc layer,
    stored in the card, formats 1 and 2 had no card_sha256, and formats 1 to 3 no rule."""
    class_names: Names
    """Class names in the order of the logits."""
    columns: Names
    """Vector columns that the head reads, concatenated in this order."""
    recipes: dict[str, dict[str, Any]]
    """Recipe of each column, with its hash; empty for a head that was trained on arrays."""
    views: dict[str, dict[str, Any]] = {}
    """Definitions of test-time views by name, whose logits are averaged with those of the image."""
    head: HeadSpec
    """Spec of the head."""
    posthoc: PosthocSpec = PosthocSpec()
    """Spec of the post-hoc layers; their parameters are among the tensors."""
    rule: DecisionRule = DecisionRule()
    """Extra temperature, costs of confusions, and the probability below which the head abstains."""
    background: tuple[int, ...] = ()
    """Indices of the classes that foreground F1 excludes when thresholds are tuned for it."""
    calibrated: bool
    """Whether the bundle has calibration rows, to refit post-hoc layers for another prior."""
    temperature: float = Field(gt=0)
    """Temperature for the head's own prior; 1 without temperature scaling."""
    temperature_under_uniform_prior: float = Field(gt=0)
    """Temperature refitted for `--prior uniform`."""
    priors: dict[str, list[float]]
    """Class counts and priors, for information; the head reads them from its tensors."""
    warnings: tuple[str, ...] = ()
    """Warnings about the probabilities."""
    facts: dict[str, Any]
    """Run, data, metrics and environment of the training."""
    versions: dict[str, str]
    """Versions of the packages that produced the numbers."""
    sha256: dict[FileName, Sha256]
    """Digest of each other file of the bundle; there must be no further files."""
    sizes: dict[FileName, Annotated[int, Field(ge=0)]] = {}
    """Size of each of these files in bytes."""
    card_sha256: Sha256 | None = None
    """Digest of all other fields of this card."""

    @model_validator(mode="after")
    def _check_completeness(self) -> "Card":
        sealed = self.format_version >= SEALED_FROM["head"]
        if "head.safetensors" not in self.sha256 or (sealed and self.sizes.keys() != self.sha256.keys()):
            raise ValueError("it must state the digest and size of head.safetensors and of each other file")
        if sealed and self.card_sha256 is None:
            raise ValueError("card_sha256 is missing")
        return self


class EnsembleCard(BaseModel):
    """The content of ensemble.json.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or out of bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    format_version: Literal[1, 2] = ENSEMBLE_FORMAT
    """Incremented when the meaning of the files changes; format 1 had no card_sha256."""
    class_names: Names
    """Class names in the order of the probabilities."""
    columns: Names
    """Vector columns that any member reads."""
    members: Annotated[
        dict[Annotated[str, Field(pattern=r"^member-[0-9]{1,5}$")], Sha256], Field(min_length=2, max_length=10_000)
    ]
    """Folder of each member, itself a bundle, with the digest of its card."""
    facts: dict[str, Any]
    """Runs, data and metrics of the ensemble."""
    versions: dict[str, str]
    """Versions of the packages that produced the numbers."""
    card_sha256: Sha256 | None = None
    """Digest of all other fields of this card."""

    @model_validator(mode="after")
    def _check_completeness(self) -> "EnsembleCard":
        if self.format_version >= SEALED_FROM["ensemble"] and self.card_sha256 is None:
            raise ValueError("card_sha256 is missing")
        return self


def ensemble_card_of(ensemble: Ensemble, members: Mapping[str, str]) -> EnsembleCard:
    """Build the card of an ensemble from the digests of its members' cards by folder."""
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
    """Build the card of a head, given the other files of its bundle."""
    card = Card(
        class_names=head.class_names,
        columns=head.columns,
        recipes={name: dict(recipe) for name, recipe in head.recipes.items()},
        views={name: dict(view) for name, view in head.views.items()},
        head=head.spec,
        posthoc=head.layers.spec,
        rule=head.layers.rule,
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
    """Return the refitted temperature, or the head's own without temperature scaling."""
    if not isinstance(head.layers.spec.calibration, Temperature | AutoTemperature):
        return head.temperature
    return head.without_decisions().under(head.uniform_prior()).temperature


def versions() -> dict[str, str]:
    """Return the versions of the packages that produce a head's numbers."""
    installed = {}
    for name in ("frostbench", "torch", "numpy", "safetensors"):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "not installed"
    return installed
