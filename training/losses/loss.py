"""The catalogue of losses and their composition into one objective."""

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
"""Training margin of a head: logits [N, C+] and label columns [N] -> logits [N, C+]."""


class LossSpec(Spec):
    """The training objective: the class-weighted mean of a loss per sample, plus further terms."""

    point: PointSpec = Field(default=CrossEntropy(), title="Loss per sample")
    """Loss of one sample, to whose mean the terms below may be added."""
    point_weight: float = Field(
        default=1.0, ge=0, le=100, json_schema_extra=SWEPT, title="Weight of the loss per sample"
    )
    """Coefficient of the mean point loss; 0 trains only on the other terms."""
    smoothing: LabelSmoothing = Field(default=LabelSmoothing(), title="Label smoothing")
    """Label smoothing: spreads a share of each label over the classes."""
    class_weight: ClassWeightSpec = Field(default=NoWeight(), title="Class weights")
    """Weights of the classes in the loss, from class sizes; none weights all samples equally."""
    weight_schedule: WeightScheduleSpec = Field(default=ConstantSchedule(), title="Class weights: schedule")
    """When class weights apply: from the first step, late in training (deferred, DRW), or growing (ramp)."""
    count: Literal["images", "groups"] = Field(default="images", title="Class weights: what is counted")
    """Unit that class weights count: images, or groups such as plants with several images each."""
    logit_adjustment: LogitAdjustment = Field(default=LogitAdjustment(), title="Logit adjustment")
    """Logit adjustment: shifts the training logits by the class prior."""
    hardmine: HardMine = Field(default=HardMine(), title="Hard-example mining")
    """Hard-example mining: trains on the hardest samples of each batch."""
    supcon: SupCon = Field(default=SupCon(), title="SupCon")
    """Term that pulls rows of one class together."""
    bcl: Bcl = Field(default=Bcl(), title="BCL")
    """Term that pulls rows of one class together, with equally weighted classes and a prototype for each."""
    center: Center = Field(default=Center(), title="Centre loss")
    """Term that pulls rows to the centre of their class."""
    lade: Lade = Field(default=Lade(), title="LADE")
    """Term that fits logits to ratios of class densities."""
    consistency: Consistency = Field(default=Consistency(), title="View consistency")
    """Term that pulls the predictions for all views of an image together."""
    mmce: Mmce = Field(default=Mmce(), title="MMCE")
    """Term that matches the confidences of a batch to its share of correct predictions, by a kernel."""
    mdca: Mdca = Field(default=Mdca(), title="MDCA")
    """Term that matches the mean prediction of a batch to its class shares."""
    crl: Crl = Field(default=Crl(), title="CRL")
    """Term that ranks confidences by how often each row was predicted correctly."""
    fedlas: Fedlas = Field(default=Fedlas(), title="FeDLaS")
    """Smooths each label by its own share."""
    vace: Vace = Field(default=Vace(), title="VACE")
    """Divides the logits by class temperatures, in training and in prediction."""

    @property
    def methods(self) -> dict[str, LossMethod]:
        """All methods by field, in catalogue order, which is also the order of added terms and random draws."""
        return {name: getattr(self, name) for name in catalogue()}

    @property
    def active(self) -> dict[str, LossMethod]:
        """The methods that have an effect, by field."""
        return {name: method for name, method in self.methods.items() if not method.is_neutral}

    @property
    def trained(self) -> dict[str, LossMethod]:
        """The active methods by field, with plugins replaced by the methods they name.

        Raises:
            PluginError: a plugin's file was not run.
        """
        return {name: method.resolved() for name, method in self.active.items()}

    @property
    def following(self) -> tuple[str, ...]:
        """Kinds of the methods that use the validation rows during training."""
        return tuple(
            str(getattr(method, "kind", "")) for method in self.trained.values() if "selection" in method.needs
        )


@lru_cache(maxsize=1)
def catalogue() -> dict[str, tuple[type[LossMethod], ...]]:
    """Return the method classes by field of `LossSpec`: a single class, or the kinds to choose from.

    >>> [kind.__name__ for kind in catalogue()["point"]][:2]
    ['CrossEntropy', 'Mbls']
    """
    by_field = {name: _classes(field.annotation) for name, field in LossSpec.model_fields.items()}
    return {name: classes for name, classes in by_field.items() if classes}


def _classes(annotation: Any) -> tuple[type[LossMethod], ...]:
    if isinstance(annotation, type):
        return (annotation,) if issubclass(annotation, LossMethod) else ()
    return tuple(kind for argument in get_args(annotation) for kind in _classes(argument))


def objective(spec: LossSpec, logits: Tensor, labels: Tensor, statistics: ClassStatistics, progress: float) -> Tensor:
    """Return the mean point loss for logits [N, C] and labels [N] at a training progress from 0 to 1."""
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
    """Return the mean point loss of logits [N, C] over the label branches, at `progress` (0 to 1) of training.

    The weight of a sample in a branch is the weight of its class times its share, and the mean divides by the sum of
    these weights. torch's cross_entropy(weight=, label_smoothing=) spreads the weights over the smoothing mass
    instead, so its optimum for a clean sample of a frequent class can be a rare class (pytorch issue 104776). A margin
    applies to a hard label, so with a margin each branch has its own scores. `point` replaces the spec's point loss if
    a method wraps it or it has state in training.
    """
    raw = of_present(logits, statistics)
    prior = statistics.log_prior_effective.exp().to(raw.dtype)
    kept = _kept(spec, raw, branches, statistics, progress)
    plain = scores(spec, raw, raw, statistics)
    totals, weights = [], []
    for branch in branches:
        label_index = statistics.position[branch.labels]
        of_branch = scores(spec, raw, margin(raw, label_index), statistics) if margin else plain
        loss = (point or spec.point)(of_branch, spec.smoothing(label_index, prior))
        weight = statistics.weight.to(loss.dtype)[label_index] * branch.share.to(loss.dtype)
        weight = weight if kept is None else weight * kept
        totals.append((weight * loss).sum())
        weights.append(weight.sum())
    return torch.stack(totals).sum() / torch.stack(weights).sum()


def scores(spec: LossSpec, raw: Tensor, margined: Tensor, statistics: ClassStatistics) -> Scores:
    """Return the scores for logits [N, C+] of the classes with training rows, before and after a margin."""
    adjustment = spec.logit_adjustment
    # At strength 0 the prior is not used, and a given prior may be missing.
    is_used = isinstance(adjustment.tau, Tensor) or adjustment.tau > 0
    adjusted = adjustment(margined, statistics.log_prior(adjustment.prior).to(raw.dtype)) if is_used else margined
    return Scores(raw, adjusted, adjusted.log_softmax(-1))


def _kept(
    spec: LossSpec, raw: Tensor, branches: Sequence[Branch], statistics: ClassStatistics, progress: float
) -> Tensor | None:
    """Return the mask [N] of hard-example mining, or None; mixed samples count towards their main class's quota."""
    if spec.hardmine.keep == 1:
        return None
    log_p = raw.detach().log_softmax(-1)
    label_index = torch.stack([statistics.position[branch.labels] for branch in branches])
    share = torch.stack([branch.share.to(log_p.dtype) for branch in branches])
    plain = -(share * log_p.gather(1, label_index.T).T).sum(0)
    main_class = label_index.gather(0, share.argmax(0, keepdim=True)).squeeze(0)
    return spec.hardmine(plain, main_class, progress)
