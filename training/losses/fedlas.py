"""FeDLaS: label smoothing per sample, by its feature norm and a learned gate."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from frostbench.heads.bodies.body import Identity, Pass
from frostbench.heads.bodies.dense import Dense, linear_layer
from frostbench.heads.head import Core, kinds_that
from frostbench.heads.spec import SWEPT
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.mbls import MARGIN_LOG, active_counts, margin_penalty
from frostbench.training.losses.method import LossMethod, LossPart, Setup
from frostbench.training.losses.scores import PointLoss, Scores, Targets
from frostbench.training.losses.step import Effect, Logs, StepContext, Updates, as_cached
from frostbench.training.rule import Rule, Verdict

# The run imports the methods.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec

OFFICIAL = (20.0, 100.0)
"""Initial mean and deviation of the norms in the official code."""
SLACK = 1e-3
"""Constant added to the deviation of the norms."""
GATE_LOGS = ("gate_share", "gate_positive", "gate_greedy", "gate_flipped")
"""Mean of a / alpha, and shares of gate signs that are positive, that lower the loss of their sample, and that differ
from the row's previous sign."""


def _rule(verdict: Verdict, applies: Callable[["RunSpec", "Fedlas"], bool], sentence: str) -> Rule:
    """Build a rule for runs with FeDLaS switched on."""

    def applies_to(run: "RunSpec") -> bool:
        return run.train.loss.fedlas.alpha > 0 and applies(run, run.train.loss.fedlas)

    return Rule(verdict, applies_to, sentence)


def _has_fixed_norms(run: "RunSpec", fedlas: "Fedlas") -> bool:
    """Whether the indicator is a norm that training does not change."""
    return fedlas.reads_norms and (fedlas.source == "input" or isinstance(run.head.body, Identity))


class Fedlas(LossMethod):
    """Smooth each label by its own share a = 2 alpha sigmoid(beta psi gamma), between 0 and 2 alpha.

    "FedLAS: feature-modulated bidirectional label smoothing for neural network calibration", arXiv:2606.28654, 2026
    (FeDLaS in its tables); the official code takes precedence where it differs. gamma is the sample's feature norm
    minus the running mean, in running deviations; psi is 1 or -1, from a small network on the logits (the gate) with
    a straight-through gradient. The loss is (1 - a) CE + a E, where E is cross entropy to uniform targets, or
    (1 - a) CE + a R with the margin penalty R of MbLS. The gate does not see calibration: it lowers the training loss,
    which with E mostly means a below alpha (the options gate and share, and beta = 0, give controls). Gate and
    statistics are discarded after training.
    """

    group: ClassVar[str] = "Confidence"
    shapes_point: ClassVar[bool] = True
    neutral: ClassVar[Mapping[str, float]] = {"alpha": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        _rule(
            "no effect",
            lambda run, _: run.is_fitted,
            f"{kinds_that(lambda kind: not kind.minimises_loss)} minimise no loss, so train.loss.fedlas "
            "has no effect on them: use head.classifier.kind=linear",
        ),
        _rule(
            "refuse",
            lambda run, _: run.is_solved and not run.is_fitted,
            "fedlas trains its gate by gradient steps, and logreg takes none: use head.classifier.kind=linear",
        ),
        _rule(
            "refuse",
            lambda run, _: not isinstance(run.train.loss.point, CrossEntropy),
            "fedlas is defined for cross entropy, which it blends with smoothing: set "
            "train.loss.point.kind=cross_entropy, or train.loss.fedlas.alpha=0",
        ),
        _rule(
            "refuse",
            lambda run, _: run.train.loss.smoothing.epsilon > 0,
            "fedlas and label smoothing both soften the labels: set train.loss.smoothing.epsilon=0, or "
            "train.loss.fedlas.alpha=0",
        ),
        _rule(
            "refuse",
            lambda run, fedlas: fedlas.statistics == "exact" and not _has_fixed_norms(run, fedlas),
            "exact statistics need norms that training does not change: set train.loss.fedlas.source=input "
            "with indicator l1 or l2, or statistics=first_batch",
        ),
        _rule(
            "no effect",
            lambda _, fedlas: fedlas.has_unused_options,
            "some options of train.loss.fedlas apply only together with others: margin and reduction with base=mbls, "
            "spread with base=label_smoothing, gate_width and gate_rate with gate=learned, theta with running "
            "statistics, source with a norm",
        ),
        _rule(
            "warn",
            _has_fixed_norms,
            "training never changes the norm of a cached vector, and for unit vectors or after a final LayerNorm "
            "it carries almost no information: use head.body.kind=mlp, or train.loss.fedlas.indicator=max_logit",
        ),
        _rule(
            "warn",
            lambda run, fedlas: run.is_adjusted and fedlas.base != "mbls" and fedlas.spread == "uniform",
            "with logit adjustment, uniform smoothing by fedlas favours rare classes everywhere: set "
            "train.loss.fedlas.spread=prior",
        ),
        _rule(
            "warn",
            lambda run, fedlas: fedlas.base == "mbls" and 2 * run.largest_logit <= fedlas.margin,
            "cosine logits differ by at most twice their scale, so the margin of fedlas cannot bind: lower "
            "train.loss.fedlas.margin, or raise head.classifier.scale",
        ),
    )
    kind: Literal["fedlas"] = "fedlas"
    alpha: float = Field(default=0.0, ge=0, lt=0.5, json_schema_extra=SWEPT, title="FeDLaS: mean smoothing share α")
    """Share of a label that is moved at the mean feature norm; shares range from 0 to twice this; 0 disables FeDLaS."""
    base: Literal["label_smoothing", "mbls"] = Field(default="label_smoothing", title="FeDLaS: base method")
    """Loss that receives the share: cross entropy to uniform targets, or the margin penalty of MbLS."""
    beta: float = Field(default=4.0, ge=0, le=100, json_schema_extra=SWEPT, title="FeDLaS: sharpness β")
    """How sharply the share depends on the norm; at 0 it is always alpha. The paper uses 4; 0.5 to 1 with base=mbls."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT, title="FeDLaS: logit margin of MbLS")
    """Gap to the largest logit above which base=mbls penalises."""
    reduction: Literal["mean", "sum"] = Field(default="mean", title="FeDLaS: reduction of MbLS")
    """Whether the MbLS penalty is a mean over the classes, as in the official code, or a sum, as in the paper."""
    spread: Literal["uniform", "prior"] = Field(default="uniform", title="FeDLaS: target distribution")
    """Target of the base "label_smoothing": uniform, or the effective prior, which suits logit adjustment."""
    indicator: Literal["l1", "l2", "max_logit", "max_prob"] = Field(default="l1", title="FeDLaS: confidence indicator")
    """Measure of confidence: a norm of the features, the largest logit, or the largest probability."""
    source: Literal["penultimate", "input"] = Field(default="penultimate", title="FeDLaS: features whose norm counts")
    """Vector whose norm is used: the classifier's input, or the rescaled cached vector, not standardised."""
    statistics: Literal["first_batch", "official", "exact"] = Field(
        default="first_batch", title="FeDLaS: statistics of the norms"
    )
    """Mean and deviation of the norms: exact, or running from those of the first batch or from 20 and 100 (official).

    Norms of cached vectors are taken after rescaling, about 16 for l2.
    """
    theta: float = Field(default=0.5, gt=0, le=1, title="FeDLaS: batch weight θ in the statistics")
    """Weight of each batch in the running mean and deviation; the paper uses 0.5 to 0.95."""
    gate: Literal["learned", "plus", "minus", "random"] = Field(default="learned", title="FeDLaS: gate")
    """Whether a large norm raises the share: learned, or as controls always (plus), never (minus) or at random."""
    share: Literal["own", "batch_mean"] = Field(default="own", title="FeDLaS: share per sample or batch")
    """Each sample's own share, or as a control the batch mean for all samples, which is plain label smoothing."""
    gate_width: int = Field(default=0, ge=0, le=4096, title="FeDLaS: hidden width of the gate")
    """Hidden width of the gate; 0 takes half the number of classes."""
    gate_rate: float = Field(default=1.0, gt=0, le=1000, title="FeDLaS: learning-rate factor of the gate")
    """Factor on the learning rate of the gate."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "FedlasPart | None":
        """Build the gate and the statistics of the norms."""
        if self.alpha == 0:
            return None
        gate = Gate(classes, self.gate_width or max(1, classes // 2), generator) if self.gate == "learned" else None
        # A body that changes nothing leaves only the cached vectors.
        return FedlasPart(self, gate, self.source == "input" or isinstance(core.body, Pass))

    @property
    def reads_norms(self) -> bool:
        """Whether the indicator is a norm."""
        return self.indicator in ("l1", "l2")

    @property
    def has_unused_options(self) -> bool:
        """Whether an option differs from its default but the other options disable it."""
        unused = {
            "margin": self.base != "mbls",
            "reduction": self.base != "mbls",
            "spread": self.base == "mbls",
            "gate_width": self.gate != "learned",
            "gate_rate": self.gate != "learned",
            "theta": self.statistics == "exact",
            "source": not self.reads_norms,
        }
        default = Fedlas()
        return any(is_unused and getattr(self, name) != getattr(default, name) for name, is_unused in unused.items())

    def confidence(self, features: Tensor, logits: Tensor) -> Tensor:
        """Return the indicator [N] for features [N, H] and logits [N, C+], without gradient."""
        if self.indicator == "max_logit":
            return logits.detach().amax(-1)
        if self.indicator == "max_prob":
            return logits.detach().softmax(-1).amax(-1)
        norms: Tensor = torch.linalg.vector_norm(features.detach().flatten(1), 1 if self.indicator == "l1" else 2, 1)
        return norms

    def updated(self, statistics: Tensor, norms: Tensor) -> Tensor:
        """Return mean and deviation [2] (ddof 1) after a batch of norms [N]; NaN statistics mean no batch yet.

        A batch of one row has no deviation, nor has one with a non-finite norm: both leave the statistics unchanged.
        """
        if len(norms) < 2 or self.statistics == "exact":
            return statistics
        batch = torch.stack([norms.mean(), norms.std()])
        later = torch.where(statistics.isfinite(), statistics + self.theta * (batch - statistics), batch)
        return torch.where(batch.isfinite().all(), later, statistics)

    def shares(self, norms: Tensor, statistics: Tensor, signs: Tensor) -> Tensor:
        """Return the share a [N] for norms [N], their mean and deviation [2], and signs psi [N]."""
        return 2 * self.alpha * (self.beta * signs * gamma(norms, statistics)).sigmoid()

    def regulariser(self, scores: Scores, prior: Tensor) -> Tensor:
        """Return E or R [N] for scores [N, C+]; prior [C+] is the effective one."""
        if self.base == "mbls":
            return margin_penalty(scores.raw, self.margin, self.reduction)
        return -(scores.log_p.mean(-1) if self.spread == "uniform" else scores.log_p @ prior)

    def blended(self, plain: Tensor, other: Tensor, share: Tensor) -> Tensor:
        """Return (1 - a) plain + a other, each [N]; with batch_mean, the gate learns from each row's own share."""
        if self.share == "own":
            return plain + share * (other - plain)
        to_gate = share * (other - plain).detach()
        return plain + share.detach().mean() * (other - plain) + (to_gate - to_gate.detach())


class FedlasPart(LossPart[Fedlas]):
    """State of FeDLaS for one head: the gate and the statistics of feature norms.

    Attributes:
        gate: trained with the head; None if the sign is not learned.
        reads_input: whether the norms are those of cached vectors.
        norms: [2] mean and deviation of the feature norms; NaN before the first batch.
        signs: [R] last sign of each training row; 0 before the first.
    """

    row_buffers: ClassVar[Mapping[str, Literal["set", "add"]]] = {"signs": "set"}
    norms: Tensor
    signs: Tensor

    def __init__(self, method: Fedlas, gate: "Gate | None", reads_input: bool) -> None:
        super().__init__((*GATE_LOGS, *((MARGIN_LOG,) if method.base == "mbls" else ())), method.gate_rate)
        self.gate, self.reads_input = gate, reads_input
        start = OFFICIAL if method.statistics == "official" else (torch.nan, torch.nan)
        self.register_buffer("norms", torch.tensor(start))

    def prepare(self, method: Fedlas, setup: Setup) -> None:
        """Compute the exact statistics of all rows, or copy them from the stack's first head."""
        if method.statistics != "exact":
            return
        first = setup.first
        if isinstance(first, FedlasPart) and first is not self and first.norms.isfinite().all():
            self.norms = first.norms.to(self.norms)
            return
        rows = setup.rows
        affine = rows.preprocess.in_units
        norms = torch.cat([method.confidence(as_cached(p, affine), p).double() for p in rows.pieces(synthetic=True)])
        self.norms = torch.stack([norms.mean(), norms.std()]).to(self.norms)

    def draw(self, method: Fedlas, rows: int, generator: torch.Generator) -> Any:
        """Draw signs [N] if they are random."""
        if method.gate != "random":
            return ()
        return 2 * torch.randint(2, (rows,), generator=generator, device=generator.device) - 1

    def effect(self, method: Fedlas, step: StepContext) -> Effect:
        """Blend the point loss with the regulariser, sample by sample."""
        logits = step.present_logits()
        norms = method.confidence(step.cached(step.x()) if self.reads_input else step.hidden, logits)
        statistics = method.updated(self.norms, norms)
        signs = self._signs(method, norms, logits, step.drawn)
        share = method.shares(norms, statistics, signs)
        prior = step.statistics.log_prior_effective.exp().to(logits.dtype)
        excess: list[Tensor] = []

        def per_sample(inner: PointLoss) -> PointLoss:
            def blended(scores: Scores, targets: Targets) -> Tensor:
                plain, other = inner(scores, targets), method.regulariser(scores, prior)
                excess.append((other - plain).detach())
                return method.blended(plain, other, share)

            return blended

        def finish() -> tuple[Updates, Logs]:
            # For mixed rows, the logs are those of the first label.
            is_greedy = signs.detach() == -gamma(norms, statistics).sign() * excess[0].sign()
            logs = gate_logs(share.detach() / method.alpha, signs.detach(), is_greedy, self.signs[step.index])
            if MARGIN_LOG in self.logs:
                logs[MARGIN_LOG] = active_counts(logits, method.margin)
            return {"norms": statistics, "signs": signs.detach()}, logs

        return Effect(per_sample=per_sample, finish=finish)

    def _signs(self, method: Fedlas, norms: Tensor, logits: Tensor, drawn: Any) -> Tensor:
        if isinstance(drawn, Tensor):
            return drawn.to(norms.dtype)
        if self.gate is None:
            return torch.full_like(norms, 1.0 if method.gate == "plus" else -1.0)
        signs: Tensor = self.gate(logits)
        return signs


class Gate(nn.Module):
    """A sign [N] for each row of logits [N, C+]; its gradient is that of the difference of two probabilities.

    The layers are linear, leaky ReLU (slope 0.01), linear to two outputs and softmax; the sign is that of the second
    output minus the first, and 0 if they are equal.
    """

    def __init__(self, classes: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden: Dense = linear_layer(classes, width, generator)
        self.out: Dense = linear_layer(width, 2, generator)

    def forward(self, logits: Tensor) -> Tensor:
        """Return the signs psi [N] of logits [N, C+], which receive no gradient."""
        first, second = self.out(leaky_relu(self.hidden(logits.detach()))).softmax(-1).unbind(-1)
        difference: Tensor = second - first
        return difference.detach().sign() + (difference - difference.detach())


def gamma(norms: Tensor, statistics: Tensor) -> Tensor:
    """Return norms [N] standardised by mean and deviation [2]; 0 before the first batch."""
    known = torch.where(statistics.isfinite(), statistics, 0.0)
    scaled = (norms - known[0]) / (known[1] + SLACK)
    return torch.where(statistics.isfinite().all(), scaled, 0.0)


def gate_logs(share: Tensor, signs: Tensor, is_greedy: Tensor, previous: Tensor) -> Logs:
    """Return sums and counts of GATE_LOGS, from shares over alpha, signs and previous signs (0 for none), each [N]."""
    has_previous = previous != 0
    values = (share, signs > 0, is_greedy, (signs != previous) & has_previous)
    counts = [torch.ones_like(previous)] * 3 + [has_previous.to(previous.dtype)]
    sums = [torch.stack([v.to(previous.dtype).sum(), c.sum()]) for v, c in zip(values, counts, strict=True)]
    return dict(zip(GATE_LOGS, sums, strict=True))
