"""FeDLaS: how far each sample's label is smoothed, by the norm of its features and a learned gate."""

from collections.abc import Mapping
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
from frostbench.training.rule import Rule

# A run holds the methods, and these their rules.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec

OFFICIAL = (20.0, 100.0)
"""Mean and deviation of the norms before the first batch, in the official code."""
SLACK = 1e-3
"""What is added to the deviation of the norms."""
GATE_LOGS = ("gate_share", "gate_positive", "gate_greedy", "gate_flipped")
"""The mean of a / alpha; of the signs, the shares that are positive, that lower the loss of their sample, and that
differ from the sign the row had last."""


class Fedlas(LossMethod):
    """Smooth each label by its own share a = 2 alpha sigmoid(beta psi gamma), between 0 and 2 alpha.

    "FedLAS: feature-modulated bidirectional label smoothing for neural network calibration", arXiv:2606.28654, 2026
    (FeDLaS in its tables), as the official code has it where that differs. gamma is the sample's feature
    norm less the running mean, in running deviations; psi is 1 or -1, from a small network on the logits (the gate),
    with a straight-through gradient. The loss is (1 - a) CE + a E, where E is cross entropy to uniform targets, or
    (1 - a) CE + a R with the margin penalty R of MbLS. The gate sees no calibration: it lowers the training loss, which
    with E mostly means a below alpha (its controls are gate, share and beta = 0). Gate and statistics are thrown away
    after training.
    """

    group: ClassVar[str] = "Confidence"
    shapes_point: ClassVar[bool] = True
    neutral: ClassVar[Mapping[str, float]] = {"alpha": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: _is_on(run) and run.is_fitted,
            f"{kinds_that(lambda kind: not kind.minimises_loss)} minimise no loss, so train.loss.fedlas "
            "has no effect on them: use head.classifier.kind=linear",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run) and run.is_solved and not run.is_fitted,
            "fedlas trains its gate by gradient steps and logreg takes none: use head.classifier.kind=linear",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run) and not isinstance(run.train.loss.point, CrossEntropy),
            "fedlas is defined for cross entropy, of which it is the share-wise blend: set "
            "train.loss.point.kind=cross_entropy, or train.loss.fedlas.alpha=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run) and run.train.loss.smoothing.epsilon > 0,
            "fedlas and label smoothing both soften the labels: set train.loss.smoothing.epsilon=0, or "
            "train.loss.fedlas.alpha=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run) and run.train.loss.fedlas.statistics == "exact" and not _has_fixed_norms(run),
            "exact statistics are those of norms that training does not change: set train.loss.fedlas.source=input "
            "with indicator l1 or l2, or statistics=first_batch",
        ),
        Rule(
            "no effect",
            lambda run: _is_on(run) and run.train.loss.fedlas.has_unread_options,
            "some options of train.loss.fedlas are read with others alone: margin and reduction with base=mbls, spread "
            "with base=label_smoothing, gate_width and gate_rate with gate=learned, theta with running statistics, "
            "source with a norm",
        ),
        Rule(
            "warn",
            lambda run: _is_on(run) and _has_fixed_norms(run),
            "the norm of a cached vector is one number that training never changes, and of vectors at length 1, or "
            "after a last LayerNorm, it says next to nothing: use head.body.kind=mlp, or "
            "train.loss.fedlas.indicator=max_logit",
        ),
        Rule(
            "warn",
            lambda run: _is_on(run) and run.is_adjusted and run.train.loss.fedlas.is_even,
            "with logit adjustment, labels that fedlas smooths evenly favour rare classes everywhere: set "
            "train.loss.fedlas.spread=prior",
        ),
        Rule(
            "warn",
            lambda run: (
                _is_on(run)
                and run.train.loss.fedlas.base == "mbls"
                and 2 * run.largest_logit <= run.train.loss.fedlas.margin
            ),
            "cosine logits lie at most 2 scale apart, so the margin of fedlas cannot bind: lower "
            "train.loss.fedlas.margin, or raise head.classifier.scale",
        ),
    )
    kind: Literal["fedlas"] = "fedlas"
    alpha: float = Field(default=0.0, ge=0, lt=0.5, json_schema_extra=SWEPT, title="FeDLaS: mean smoothing share α")
    """Share of a label that is moved at the mean feature norm; others lie between 0 and twice this. 0 moves none."""
    base: Literal["label_smoothing", "mbls"] = Field(default="label_smoothing", title="FeDLaS: base method")
    """What the share goes to: cross entropy to even targets, or the margin penalty of MbLS."""
    beta: float = Field(default=4.0, ge=0, le=100, json_schema_extra=SWEPT, title="FeDLaS: sharpness β")
    """Sharpness with which the norm acts; 0 gives each sample alpha. The paper has 4, and 0.5 to 1 with base mbls."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT, title="FeDLaS: logit margin of MbLS")
    """Gap to the largest logit from which base mbls penalises."""
    reduction: Literal["mean", "sum"] = Field(default="mean", title="FeDLaS: reduction of MbLS")
    """Whether that penalty is the mean over the classes, as in the official code, or the sum, as in the paper."""
    spread: Literal["uniform", "prior"] = Field(default="uniform", title="FeDLaS: target distribution")
    """Where base label_smoothing moves the share: evenly, or by the effective prior, which suits logit adjustment."""
    indicator: Literal["l1", "l2", "max_logit", "max_prob"] = Field(default="l1", title="FeDLaS: confidence indicator")
    """Measure of how sure the head is: a norm of the features, the largest logit, or the largest probability."""
    source: Literal["penultimate", "input"] = Field(default="penultimate", title="FeDLaS: features whose norm counts")
    """Vector whose norm counts: the classifier's input, which a body makes, or the one in units, unstandardised."""
    statistics: Literal["first_batch", "official", "exact"] = Field(
        default="first_batch", title="FeDLaS: statistics of the norms"
    )
    """Mean and deviation of norms: running from the first batch or 20 and 100 (official), or exact for all rows.

    Norms of vectors are those in units (see head.preprocess), about 16 for l2.
    """
    theta: float = Field(default=0.5, gt=0, le=1, title="FeDLaS: batch weight θ in the statistics")
    """Weight of each batch in the running mean and deviation; the paper has 0.5 to 0.95."""
    gate: Literal["learned", "plus", "minus", "random"] = Field(default="learned", title="FeDLaS: gate")
    """Whether a large norm means a larger share: learned, or as a control always, never (minus), or drawn at random."""
    share: Literal["own", "batch_mean"] = Field(default="own", title="FeDLaS: share per sample or batch")
    """Each sample's own share; or as a control the mean of the batch for all, which is label smoothing at that mean."""
    gate_width: int = Field(default=0, ge=0, le=4096, title="FeDLaS: hidden width of the gate")
    """Hidden width of the gate; 0 is half the number of classes."""
    gate_rate: float = Field(default=1.0, gt=0, le=1000, title="FeDLaS: learning-rate factor of the gate")
    """Factor on the learning rate for the gate."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "FedlasPart | None":
        """Build the gate and the statistics of the norms."""
        if self.alpha == 0:
            return None
        gate = Gate(classes, self.gate_width or max(1, classes // 2), generator) if self.gate == "learned" else None
        return FedlasPart(self, gate, self.reads_input(not isinstance(core.body, Pass)))

    @property
    def reads_norms(self) -> bool:
        """Whether the indicator is a norm."""
        return self.indicator in ("l1", "l2")

    @property
    def is_even(self) -> bool:
        """Whether the share goes to all classes alike."""
        return self.base != "mbls" and self.spread == "uniform"

    @property
    def has_unread_options(self) -> bool:
        """Whether an option is set that the other options leave unread."""
        unread = {
            "margin": self.base != "mbls",
            "reduction": self.base != "mbls",
            "spread": self.base == "mbls",
            "gate_width": self.gate != "learned",
            "gate_rate": self.gate != "learned",
            "theta": self.statistics == "exact",
            "source": not self.reads_norms,
        }
        plain = Fedlas()
        return any(is_unread and getattr(self, name) != getattr(plain, name) for name, is_unread in unread.items())

    def reads_input(self, has_body: bool) -> bool:
        """Whether norms are those of cached vectors; a body that changes nothing leaves only these."""
        return self.source == "input" or not has_body

    def strengths(self, features: Tensor, logits: Tensor) -> Tensor:
        """The indicator [N] of features [N, H] and logits [N, C+], without gradient."""
        if self.indicator == "max_logit":
            return logits.detach().amax(-1)
        if self.indicator == "max_prob":
            return logits.detach().softmax(-1).amax(-1)
        norms: Tensor = torch.linalg.vector_norm(features.detach().flatten(1), 1 if self.indicator == "l1" else 2, 1)
        return norms

    def moved(self, norms: Tensor, before: Tensor) -> Tensor:
        """Mean and deviation [2] (ddof 1) after a batch of norms [N]; NaN before means that there was none.

        A batch of one row has no deviation, and one with a norm that is not finite has none either: both leave them.
        """
        if len(norms) < 2 or self.statistics == "exact":
            return before
        batch = torch.stack([norms.mean(), norms.std()])
        later = torch.where(before.isfinite(), before + self.theta * (batch - before), batch)
        return torch.where(batch.isfinite().all(), later, before)

    def shares(self, norms: Tensor, statistics: Tensor, signs: Tensor) -> Tensor:
        """The share a [N] of samples with these norms [N] and signs psi [N], by mean and deviation [2]."""
        return 2 * self.alpha * (self.beta * signs * gamma(norms, statistics)).sigmoid()

    def regulariser(self, scores: Scores, prior: Tensor) -> Tensor:
        """What the share goes to [N]: E or R of scores [N, C+]; prior [C+] is the effective one."""
        if self.base == "mbls":
            return margin_penalty(scores.raw, self.margin, self.reduction)
        return -(scores.log_p.mean(-1) if self.spread == "uniform" else scores.log_p @ prior)

    def blended(self, plain: Tensor, other: Tensor, share: Tensor) -> Tensor:
        """(1 - a) plain + a other, each [N]; with the mean share, the gate still learns from its own."""
        if self.share == "own":
            return plain + share * (other - plain)
        to_gate = share * (other - plain).detach()
        return plain + share.detach().mean() * (other - plain) + (to_gate - to_gate.detach())


class FedlasPart(LossPart[Fedlas]):
    """The gate, and the statistics of the norms.

    Attributes:
        gate: trained with the head; None where the sign is not learned.
        reads_input: whether norms are those of cached vectors.
        norms: [2] mean and deviation of the feature norms; NaN before the first batch.
        signs: [R] the last sign of each training row; 0 before there was one.
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
        """Take mean and deviation of the norms of all rows, where the method keeps to them."""
        if method.statistics != "exact":
            return
        first = setup.first
        if isinstance(first, FedlasPart) and first is not self and first.norms.isfinite().all():
            self.norms = first.norms.to(self.norms)
            return
        rows = setup.rows
        affine = rows.preprocess.in_units
        norms = torch.cat([method.strengths(as_cached(p, affine), p).double() for p in rows.pieces(synthetic=True)])
        self.norms = torch.stack([norms.mean(), norms.std()]).to(self.norms)

    def draw(self, method: Fedlas, rows: int, generator: torch.Generator) -> Any:
        """Draw signs [N] in place of the gate's, where they are random."""
        if method.gate != "random":
            return ()
        return 2 * torch.randint(2, (rows,), generator=generator, device=generator.device) - 1

    def effect(self, method: Fedlas, step: StepContext) -> Effect:
        """Blend the point loss with the regulariser, sample by sample."""
        logits = step.present_logits()
        norms = method.strengths(step.cached(step.x()) if self.reads_input else step.hidden, logits)
        statistics = method.moved(norms, self.norms)
        signs = self._signs(method, norms, logits, step.drawn)
        share = method.shares(norms, statistics, signs)
        prior = step.statistics.log_prior_effective.exp().to(logits.dtype)
        smoothed = Smoothed(method, share, signs.detach(), gamma(norms, statistics), prior)

        def finish() -> tuple[Updates, Logs]:
            logs = smoothed.logs(self.signs[step.index])
            if MARGIN_LOG in self.logs:
                logs[MARGIN_LOG] = active_counts(logits, method.margin)
            return {"norms": statistics, "signs": smoothed.signs}, logs

        return Effect(per_sample=smoothed.around, finish=finish)

    def _signs(self, method: Fedlas, norms: Tensor, logits: Tensor, drawn: Any) -> Tensor:
        """Signs psi [N] of a step with norms [N] and logits [N, C+]."""
        if isinstance(drawn, Tensor):
            return drawn.to(norms.dtype)
        if self.gate is None:
            return torch.full_like(norms, 1.0 if method.gate == "plus" else -1.0)
        signs: Tensor = self.gate(logits)
        return signs


class Smoothed:
    """The blend in one step; it notes what the shares went by.

    Attributes:
        method: with the head's own numbers.
        share: [N] a.
        signs: [N] psi.
        gamma: [N].
        excess: [N] of the regulariser over the point loss, for the first labels it was asked about.
    """

    excess: Tensor

    def __init__(self, method: Fedlas, share: Tensor, signs: Tensor, gamma: Tensor, prior: Tensor) -> None:
        self.method, self.share, self.signs, self.gamma = method, share, signs, gamma
        self._prior, self._is_asked = prior, False

    def around(self, inner: PointLoss) -> PointLoss:
        """Return the blend of a point loss, which gives [N] for scores [N, C+] against hard targets."""

        def blended(scores: Scores, targets: Targets) -> Tensor:
            plain, other = inner(scores, targets), self.method.regulariser(scores, self._prior)
            if not self._is_asked:
                self.excess, self._is_asked = (other - plain).detach(), True
            return self.method.blended(plain, other, self.share)

        return blended

    def logs(self, before: Tensor) -> Logs:
        """Return what is logged of the step, whose rows had the signs before [N]."""
        values = (
            self.share.detach() / self.method.alpha,
            self.signs > 0,
            self.signs == -self.gamma.sign() * self.excess.sign(),
            (self.signs != before) & (before != 0),
        )
        counts = [torch.ones_like(before)] * 3 + [(before != 0).to(before.dtype)]
        sums = [torch.stack([v.to(before.dtype).sum(), c.sum()]) for v, c in zip(values, counts, strict=True)]
        return dict(zip(GATE_LOGS, sums, strict=True))


class Gate(nn.Module):
    """A sign for each row of logits [N, C+], in [N]; backwards it is the difference of two probabilities.

    Linear, leaky ReLU (slope 0.01), linear to two outputs, softmax; the sign is that of the second less the first, and
    0 where they are equal.
    """

    def __init__(self, classes: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden: Dense = linear_layer(classes, width, generator)
        self.out: Dense = linear_layer(width, 2, generator)

    def forward(self, logits: Tensor) -> Tensor:
        """Signs psi [N] of logits [N, C+], which get no gradient."""
        first, second = self.out(leaky_relu(self.hidden(logits.detach()))).softmax(-1).unbind(-1)
        difference: Tensor = second - first
        return difference.detach().sign() + (difference - difference.detach())


def gamma(norms: Tensor, statistics: Tensor) -> Tensor:
    """How far norms [N] lie above the mean, in deviations, by both [2]; 0 before there are any."""
    known = torch.where(statistics.isfinite(), statistics, 0.0)
    scaled = (norms - known[0]) / (known[1] + SLACK)
    return torch.where(statistics.isfinite().all(), scaled, 0.0)


def _is_on(run: "RunSpec") -> bool:
    return run.train.loss.fedlas.alpha > 0


def _has_fixed_norms(run: "RunSpec") -> bool:
    """Whether the indicator is a norm that is the same all through training."""
    fedlas = run.train.loss.fedlas
    return fedlas.reads_norms and (fedlas.source == "input" or isinstance(run.head.body, Identity))
