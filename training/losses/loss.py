"""The catalogue of losses, and their composition into one objective."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec
from frostbench.training.losses.acls import Acls
from frostbench.training.losses.adafocal import AdaFocal
from frostbench.training.losses.bcl import Bcl
from frostbench.training.losses.brier import Brier
from frostbench.training.losses.center import Center
from frostbench.training.losses.class_statistics import ClassStatistics, of_present
from frostbench.training.losses.class_weights import ClassWeightSpec, ConstantSchedule, NoWeight, WeightScheduleSpec
from frostbench.training.losses.consistency import Consistency
from frostbench.training.losses.cpc import Cpc
from frostbench.training.losses.crl import Crl
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.entropy import Ecp
from frostbench.training.losses.external import ExternalLoss
from frostbench.training.losses.fedlas import Fedlas
from frostbench.training.losses.focal import DualFocal, Flsd53, Focal, SigmoidFocal
from frostbench.training.losses.hardmine import HardMine
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.lade import Lade
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.losses.mbls import Mbls
from frostbench.training.losses.mdca import Mdca
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.mmce import Mmce
from frostbench.training.losses.scores import Branch, PointLoss, Scores
from frostbench.training.losses.supcon import SupCon
from frostbench.training.losses.vace import Vace

PointSpec = Annotated[
    CrossEntropy
    | Mbls
    | Acls
    | Ecp
    | Cpc
    | Brier
    | Focal
    | Flsd53
    | DualFocal
    | AdaFocal
    | SigmoidFocal
    | ExternalLoss,
    Field(discriminator="kind"),
]
Margin = Callable[[Tensor, Tensor], Tensor]
"""What a margin head does in training to logits [N, C+] of labels' places [N]."""


class LossSpec(Spec):
    """What is minimised: the class-weighted mean of a loss per sample, and terms beside it."""

    point: PointSpec = Field(default=CrossEntropy(), title="Loss per sample")
    """Loss of one sample, beside which the terms below may stand."""
    point_weight: float = Field(
        default=1.0, ge=0, le=100, json_schema_extra=SWEPT, title="Weight of the loss per sample"
    )
    """Coefficient of the mean of the point loss; 0 trains by the terms beside it alone."""
    smoothing: LabelSmoothing = Field(default=LabelSmoothing(), title="Label smoothing")
    """Softens the labels."""
    class_weight: ClassWeightSpec = Field(default=NoWeight(), title="Class weights")
    """Weights of the classes in the loss, by their sizes; none counts all samples alike."""
    weight_schedule: WeightScheduleSpec = Field(default=ConstantSchedule(), title="Class weights: schedule")
    """Course of the class weights: full from the first step, late (deferred, DRW), or little by little (ramp)."""
    count: Literal["images", "groups"] = Field(default="images", title="Class weights: what is counted")
    """Unit that class weights count: images, or groups such as plants, of which several images show the same."""
    logit_adjustment: LogitAdjustment = Field(default=LogitAdjustment(), title="Logit adjustment")
    """Shifts the training logits by the class prior."""
    hardmine: HardMine = Field(default=HardMine(), title="Hard-example mining")
    """Which samples of a batch count."""
    supcon: SupCon = Field(default=SupCon(), title="SupCon")
    """A term beside the mean that draws rows of one class together."""
    bcl: Bcl = Field(default=Bcl(), title="BCL")
    """The same with every class counting alike, and a prototype for each."""
    center: Center = Field(default=Center(), title="Centre loss")
    """A term that draws rows to the centre of their class."""
    lade: Lade = Field(default=Lade(), title="LADE")
    """A term that fits logits to ratios of densities."""
    consistency: Consistency = Field(default=Consistency(), title="View consistency")
    """A term that draws the predictions for all views of an image together."""
    mmce: Mmce = Field(default=Mmce(), title="MMCE")
    """A term that draws the confidences of a batch to its share of right predictions, by a kernel."""
    mdca: Mdca = Field(default=Mdca(), title="MDCA")
    """A term that draws the mean prediction of a batch to the shares of its classes."""
    crl: Crl = Field(default=Crl(), title="CRL")
    """A term that ranks confidences as rows were learnt."""
    fedlas: Fedlas = Field(default=Fedlas(), title="FeDLaS")
    """Softens each label by a share of its own."""
    vace: Vace = Field(default=Vace(), title="VACE")
    """Divides the logits by temperatures of the classes, in training and in prediction."""

    @property
    def methods(self) -> dict[str, LossMethod]:
        """The methods by field, in the order of the catalogue, in which terms are added and random numbers drawn."""
        return {name: getattr(self, name) for name in catalogue()}

    @property
    def active(self) -> dict[str, LossMethod]:
        """The methods that change something, likewise."""
        return {name: method for name, method in self.methods.items() if not method.is_neutral}

    @property
    def trained(self) -> dict[str, LossMethod]:
        """The methods that train, likewise: those of plugins in place of what names them.

        Raises:
            PluginError: a plugin's file was not run.
        """
        return {name: method.resolved() for name, method in self.active.items()}

    @property
    def following(self) -> tuple[str, ...]:
        """Kinds of the methods that follow the selection rows while they train."""
        return tuple(str(getattr(one, "kind", "")) for one in self.trained.values() if "selection" in one.needs)


@lru_cache(maxsize=1)
def catalogue() -> dict[str, tuple[type[LossMethod], ...]]:
    """Return the classes of the methods by the field of `LossSpec` that holds them: one, or the kinds to choose from.

    >>> [kind.__name__ for kind in catalogue()["point"]][:2]
    ['CrossEntropy', 'Mbls']
    """
    found = {name: _classes(field.annotation) for name, field in LossSpec.model_fields.items()}
    return {name: classes for name, classes in found.items() if classes}


def _classes(annotation: Any) -> tuple[type[LossMethod], ...]:
    if isinstance(annotation, type):
        return (annotation,) if issubclass(annotation, LossMethod) else ()
    return tuple(kind for argument in get_args(annotation) for kind in _classes(argument))


def objective(spec: LossSpec, logits: Tensor, labels: Tensor, statistics: ClassStatistics, progress: float) -> Tensor:
    """Scalar mean of the point loss for logits [N, C] and labels [N] at a training progress from 0 to 1."""
    return branched_objective(spec, logits, (Branch(labels, logits.new_ones(len(labels))),), statistics, progress)


def branched_objective(
    spec: LossSpec,
    logits: Tensor,
    branches: Sequence[Branch],
    statistics: ClassStatistics,
    progress: float,
    margin: Margin | None = None,
    point: PointLoss | None = None,
) -> Tensor:
    """Scalar mean of the point loss for logits [N, C] and the branches of their labels at a progress from 0 to 1.

    The weight of a sample in a branch is that of its class there times its share, and the mean divides by the weights
    that took part. torch's cross_entropy(weight=, label_smoothing=) spreads the weights over the smoothing mass
    instead, whose optimum for a clean sample of a frequent class can be a rare class (pytorch issue 104776).
    A margin belongs to a hard label, so each branch has scores of its own where there is one. A point loss that has a
    state in training comes as point, in place of the spec's own.
    """
    raw = of_present(logits, statistics)
    prior = statistics.log_prior_effective.exp().to(raw.dtype)
    kept = _kept(spec, raw, branches, statistics, progress)
    plain = scores(spec, raw, raw, statistics)
    totals, weights = [], []
    for branch in branches:
        own = statistics.position[branch.labels]
        seen = scores(spec, raw, margin(raw, own), statistics) if margin else plain
        loss = (point or spec.point)(seen, spec.smoothing(own, prior))
        weight = statistics.weight.to(loss.dtype)[own] * branch.share.to(loss.dtype)
        weight = weight if kept is None else weight * kept
        totals.append((weight * loss).sum())
        weights.append(weight.sum())
    return torch.stack(totals).sum() / torch.stack(weights).sum()


def scores(spec: LossSpec, raw: Tensor, margined: Tensor, statistics: ClassStatistics) -> Scores:
    """The stages for logits [N, C+] of the classes with training rows, before and after a margin."""
    adjustment = spec.logit_adjustment
    # At strength 0 no prior is read, and one that would be given may not be there.
    is_read = isinstance(adjustment.tau, Tensor) or adjustment.tau > 0
    adjusted = adjustment(margined, statistics.log_prior(adjustment.prior).to(raw.dtype)) if is_read else margined
    return Scores(raw, adjusted, adjusted.log_softmax(-1))


def _kept(
    spec: LossSpec, raw: Tensor, branches: Sequence[Branch], statistics: ClassStatistics, progress: float
) -> Tensor | None:
    """Mask [N] of the samples that hard mining keeps; a mixed sample fills the quota of the class it has most of."""
    if spec.hardmine.keep == 1:
        return None
    log_p = raw.detach().log_softmax(-1)
    own = torch.stack([statistics.position[branch.labels] for branch in branches])
    share = torch.stack([branch.share.to(log_p.dtype) for branch in branches])
    plain = -(share * log_p.gather(1, own.T).T).sum(0)
    largest = own.gather(0, share.argmax(0, keepdim=True)).squeeze(0)
    return spec.hardmine(plain, largest, progress)
