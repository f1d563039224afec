"""What a loss remembers between steps, beside what it trains: statistics, histories, and what it logs."""

import torch
from torch import Tensor, nn

from frostbench.heads.bodies.body import Pass
from frostbench.heads.head import Core
from frostbench.training.losses.adafocal import AdaFocal
from frostbench.training.losses.class_statistics import Facts
from frostbench.training.losses.crl import right
from frostbench.training.losses.fedlas import OFFICIAL, Fedlas, gamma
from frostbench.training.losses.loss import LossSpec
from frostbench.training.losses.mbls import Mbls, active_share
from frostbench.training.losses.scores import PointLoss, Scores, Targets
from frostbench.training.losses.vace import batch_scatter

ROWS_SET, ROWS_ADD = "rows=", "rows+"
"""Before the name of a buffer [R]: the update [N] replaces, or is added to, the entries of the step's rows."""
GATE_LOGS = ("gate_share", "gate_positive", "gate_greedy", "gate_flipped")
"""Of FeDLaS: the mean of a / alpha; of the signs, the shares that are positive, that lower the loss of their sample,
and that differ from the sign the row had last."""
MARGIN_LOG = "margin_active"
"""Of MbLS and FeDLaS-MbLS: the share of gaps between logits that are penalised; at 0 the penalty does nothing."""
Updates = dict[str, Tensor]
"""Buffers of an objective with their values after a step."""


class LossState(nn.Module):
    """What a loss remembers: all of it is thrown away after training, but goes into checkpoints.

    Attributes:
        logged: names of what is logged.
        gate: of FeDLaS, trained with the head.
        norms: [2] mean and deviation of the feature norms of FeDLaS; NaN before the first batch.
        signs: [R] the last sign of the gate for each training row; 0 before there was one.
        told: [L, 2] sums and counts of what is logged, since the last epoch.
        scatter: [C+] of VACE where it is a running one; NaN for classes that were not seen.
        edges: [M - 1] between the bins of AdaFocal.
        powers: [M] of its bins.
        rights: [R] how often CRL saw each training row predicted rightly.
        visits: [R] how often it saw the row.
    """

    norms: Tensor
    signs: Tensor
    told: Tensor
    scatter: Tensor
    edges: Tensor
    powers: Tensor
    rights: Tensor
    visits: Tensor

    def __init__(self, spec: LossSpec, core: Core, classes: int, generator: torch.Generator) -> None:
        super().__init__()
        self.smooths = spec.fedlas.alpha > 0
        self.reads_input = spec.fedlas.reads_input(not isinstance(core.body, Pass))
        self.gate = spec.fedlas.build_gate(classes, generator)
        self._start("norms", OFFICIAL if spec.fedlas.statistics == "official" else (torch.nan, torch.nan))
        self.logged = (*(GATE_LOGS if self.smooths else ()), *((MARGIN_LOG,) if _has_margin(spec) else ()))
        self._start("told", ((0.0, 0.0),) * len(self.logged))
        is_running = spec.vace.strength > 0 and not spec.vace.is_fixed
        self._start("scatter", (torch.nan,) * (classes if is_running else 0))
        edges, powers = spec.point.first() if isinstance(spec.point, AdaFocal) else ((), ())
        self._start("edges", edges)
        self._start("powers", powers)
        for name in ("signs", "rights", "visits"):
            self._start(name, ())

    def _start(self, name: str, values: tuple[float, ...] | tuple[tuple[float, float], ...]) -> None:
        self.register_buffer(name, torch.tensor(values))

    @torch.no_grad()
    def prepare(self, spec: LossSpec, rows: int, norms: Tensor | None) -> None:
        """Make room for that many training rows; norms are the mean and deviation [2] that hold for good."""
        if spec.fedlas.alpha > 0:
            self.signs = self.norms.new_zeros(rows)
            self.norms = self.norms if norms is None else norms.to(self.norms)
        if spec.crl.weight > 0:
            self.rights, self.visits = self.norms.new_zeros(rows), self.norms.new_zeros(rows)

    def running_temperatures(
        self, spec: LossSpec, facts: Facts, x: Tensor, own: Tensor, index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Temperatures [C+] and the running scatter [C+] after a batch of what scatters [N, H].

        Its rows have places own [N] and numbers index [N].
        """
        batch, rows = batch_scatter(x.detach(), own, len(facts.present), index)
        scatter = spec.vace.moved(self.scatter, batch, rows)
        return spec.vace.temperatures(scatter, facts.counts[facts.present]), scatter

    def point(
        self, spec: LossSpec, facts: Facts, features: Tensor, logits: Tensor, signs: Tensor | tuple[()]
    ) -> "Smoothed | PointLoss | None":
        """The point loss of a step where it has a state; None where the spec's own holds.

        Args:
            spec: with a head's own numbers.
            facts: of the training rows.
            features: [N, H] whose norms FeDLaS takes.
            logits: [N, C+].
            signs: [N] drawn for the gate, where it is random.
        """
        if self.smooths:
            return self._smoothed(spec.fedlas, facts, features, logits, signs)
        if isinstance(spec.point, AdaFocal):
            adafocal = spec.point
            return lambda scores, targets: adafocal.by_bin(scores, targets, self.edges, self.powers)
        return None

    def _smoothed(
        self, spec: Fedlas, facts: Facts, features: Tensor, logits: Tensor, drawn: Tensor | tuple[()]
    ) -> "Smoothed":
        norms = spec.strengths(features, logits)
        statistics = spec.moved(norms, self.norms)
        fixed = {"plus": 1.0, "minus": -1.0}
        if isinstance(drawn, Tensor):
            signs = drawn.to(norms.dtype)
        else:
            signs = torch.full_like(norms, fixed[spec.gate]) if spec.gate in fixed else self.gate(logits)
        share = spec.shares(norms, statistics, signs)
        prior = facts.log_prior_effective.exp().to(logits.dtype)
        return Smoothed(spec, share, signs.detach(), gamma(norms, statistics), statistics, prior)

    def after(self, spec: LossSpec, point: "Smoothed | PointLoss | None", logits: Tensor, index: Tensor) -> Updates:
        """The buffers after a step with this point loss on logits [N, C+], for rows with these numbers [N]."""
        updates: Updates = {}
        sums: list[Tensor] = []
        if isinstance(point, Smoothed):
            sums += self._told_by(point, index)
            updates |= {"state.norms": point.statistics, f"{ROWS_SET}state.signs": point.signs}
        if MARGIN_LOG in self.logged:
            margin = spec.point.margin if isinstance(spec.point, Mbls) else spec.fedlas.margin
            active = active_share(logits.detach(), margin)
            sums.append(torch.stack([active.sum(), torch.ones_like(active).sum()]))
        return updates | {"state.told": self.told + torch.stack(sums)} if sums else updates

    def _told_by(self, point: "Smoothed", index: Tensor) -> list[Tensor]:
        """Sums and counts [2] of what FeDLaS logs of a step, for rows with these numbers [N]."""
        before = self.signs[index]
        values = (
            point.share.detach() / point.spec.alpha,
            point.signs > 0,
            point.signs == -point.gamma.sign() * point.excess.sign(),
            (point.signs != before) & (before != 0),
        )
        counts = [torch.ones_like(before)] * 3 + [(before != 0).to(before.dtype)]
        return [torch.stack([v.to(before.dtype).sum(), c.sum()]) for v, c in zip(values, counts, strict=True)]

    def ranked(self, spec: LossSpec, logits: Tensor, own: Tensor, index: Tensor) -> tuple[Tensor, Updates]:
        """The term of CRL, with its coefficient, for logits [N, C+], and its history after the step."""
        history = self.rights[index] / self.visits[index].clamp(min=1)
        hits = right(logits.detach(), own)
        updates = {f"{ROWS_ADD}state.rights": hits, f"{ROWS_ADD}state.visits": torch.ones_like(hits)}
        return spec.crl.weight * spec.crl(logits, history), updates


def rows_remembered(spec: LossSpec) -> int:
    """Numbers that a loss remembers of each training row.

    >>> rows_remembered(LossSpec())
    0
    """
    return (spec.fedlas.alpha > 0) + 2 * (spec.crl.weight > 0)


def _has_margin(spec: LossSpec) -> bool:
    return isinstance(spec.point, Mbls) or (spec.fedlas.alpha > 0 and spec.fedlas.base == "mbls")


class Smoothed:
    """The point loss of FeDLaS in one step; it notes what its share went by.

    Attributes:
        spec: of FeDLaS.
        share: [N] a.
        signs: [N] psi.
        gamma: [N].
        statistics: [2] of the norms.
        excess: [N] of the regulariser over cross entropy, for the first labels it was asked about.
    """

    excess: Tensor

    def __init__(
        self, spec: Fedlas, share: Tensor, signs: Tensor, gamma: Tensor, statistics: Tensor, prior: Tensor
    ) -> None:
        self.spec, self.share, self.signs, self.gamma, self.statistics = spec, share, signs, gamma, statistics
        self._prior, self._is_asked = prior, False

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against hard targets."""
        plain, other = -targets.mean(scores.log_p), self.spec.regulariser(scores, self._prior)
        if not self._is_asked:
            self.excess, self._is_asked = (other - plain).detach(), True
        return self.spec.blended(plain, other, self.share)
