"""Mixup of vectors and of hidden layers, and its rules."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec
from frostbench.training.augment.mix import Mix
from frostbench.training.losses.loss import catalogue
from frostbench.training.losses.method import LossMethod
from frostbench.training.rule import Rule, Verdict

# The run imports this spec, and the rules of this spec read the run.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def _label_rules(off: str) -> Iterator[Rule]:
    """Yield a rule for every loss method that needs or prefers one label per row."""
    for field, kinds in catalogue().items():
        for kind in kinds:
            options = [f"train.loss.{field}.{name}={value:g}" for name, value in kind.neutral.items()]
            without = " and ".join(options) if len(kinds) == 1 else f"another train.loss.{field}.kind"
            reasons: dict[Verdict, str] = {"refuse": kind.needs_single_labels, "warn": kind.prefers_single_labels}
            for verdict, reason in reasons.items():
                if reason:
                    sentence = f"mixup gives each row the labels of two classes, but {reason}: set {off}, or {without}"
                    yield Rule(verdict, partial(_is_mixed_with, field, kind), sentence)


def _is_mixed_with(field: str, kind: type[LossMethod], run: "RunSpec") -> bool:
    method = getattr(run.train.loss, field)
    return run.is_mixed and isinstance(method, kind) and not method.is_neutral


def _moves_labels(run: "RunSpec") -> bool:
    """Whether mixing shifts labels from frequent classes to rare ones."""
    mixup = run.train.mixup
    return run.is_mixed and (mixup.pairing == "head_tail" or mixup.label_rule == "remix") and not run.is_solved


def _has_unused_remix(run: "RunSpec") -> bool:
    mixup, plain = run.train.mixup, Mixup()
    return mixup.label_rule == "share" and (mixup.remix_kappa, mixup.remix_tau) != (plain.remix_kappa, plain.remix_tau)


class Mixup(Spec):
    """Train on mixtures of pairs of rows, whose two labels share the loss.

    Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018; with hidden layers, Verma et al., "Manifold
    mixup: better representations by interpolating hidden states", ICML 2019. The share is drawn for each row, the
    layer for each step. Pairs with rows of rare classes follow Ren et al., Entropy 26(10):839, 2024, who blend images.
    """

    group: ClassVar[str] = "Sampling and augmentation"
    """Title of the form group that shows it."""
    off: ClassVar[str] = "train.mixup.alpha=0"
    """Setting that turns mixing off, as messages name it."""
    drawn_numbers: ClassVar[tuple[str, ...]] = ("alpha",)
    """Swept numbers that only the random draws of a step read."""
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: not run.is_mixed and run.train.mixup != Mixup(),
            f"{off} turns mixup off, so its other options have no effect: raise alpha, or leave the others at their "
            "defaults",
        ),
        Rule(
            "no effect",
            lambda run: run.is_mixed and _has_unused_remix(run),
            "label_rule=share does not use remix_kappa and remix_tau, so they have no effect: set "
            "train.mixup.label_rule=remix",
        ),
        Rule(
            "no effect",
            lambda run: run.is_mixed and run.train.mixup.where == "hidden" and run.is_bare,
            "a head without a body has no hidden layer, so train.mixup.where=hidden mixes the input: use "
            "head.body.kind=mlp, or train.mixup.where=input",
        ),
        Rule(
            "no effect",
            lambda run: run.is_mixed and run.is_solved,
            f"a closed-form classifier such as logreg uses the rows unmixed, so mixup has no effect: set {off}",
        ),
        Rule(
            "warn",
            lambda run: _moves_labels(run) and (run.is_adjusted or (run.is_shifted and run.reads_loss_last)),
            "mixup with head_tail or remix moves label mass to rare classes, which logit adjustment favours as well: "
            "use train.mixup.pairing=random with label_rule=share, or no adjustment",
        ),
        *_label_rules(off),
    )
    kind: Literal["mixup"] = "mixup"
    alpha: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="Mixup α (Beta distribution)")
    """Both parameters of the share's Beta distribution: 0 turns mixup off, 1 is uniform, small values mix little."""
    where: Literal["input", "hidden"] = Field(default="input", title="Mixup: layer that is mixed")
    """Layer that is mixed: the input vector, or in each step a random layer, the input included (manifold mixup)."""
    pairing: Literal["random", "head_tail"] = Field(default="random", title="Mixup: choice of partners")
    """Partners: a shuffle of the batch, or rows of classes drawn in inverse proportion to their size (head_tail)."""
    label_rule: Literal["share", "remix"] = Field(default="share", title="Mixup: label rule")
    """Label of a mixture: shared as the vectors are, or all given to a much rarer class of large share (remix)."""
    remix_kappa: float = Field(default=3.0, gt=1, le=1000, title="Remix: class-size ratio κ")
    """How many times larger one class must be than the other before remix gives the whole label to the rarer one."""
    remix_tau: float = Field(default=0.5, ge=0, le=1, title="Remix: share threshold τ")
    """Remix gives the label to the rarer class if the larger one has less than this share of the vector."""

    @property
    def is_neutral(self) -> bool:
        """Whether rows are left unmixed."""
        return self.alpha == 0

    def draw_layer(self, depth: int, generator: torch.Generator) -> int:
        """Draw the number of blocks before the mixing in a body of `depth` blocks; 0 mixes the input."""
        if self.where == "input" or depth == 0:
            return 0
        return int(torch.randint(depth + 1, (), generator=generator, device=generator.device))

    def draw(self, labels: Tensor, counts: Tensor, generator: torch.Generator) -> Mix:
        """Draw a mixing of rows with labels [N] for class counts [C], all on the generator's device.

        `alpha` must be above 0.
        """
        if self.pairing == "head_tail":
            partner = _rare_partners(labels, counts, generator)
        else:
            partner = torch.randperm(len(labels), generator=generator, device=generator.device)
        share = self._shares(len(labels), generator)
        if self.label_rule == "share":
            return Mix(partner, share, share)
        ratio = counts[labels].double() / counts[labels[partner]].double()
        return Mix(partner, share, remix_share(share, ratio, self.remix_kappa, self.remix_tau))

    def _shares(self, rows: int, generator: torch.Generator) -> Tensor:
        # torch cannot draw Beta variates from a generator, so uniform numbers go through the inverse CDF.
        from scipy.special import betaincinv

        uniform = torch.rand(rows, generator=generator, device=generator.device, dtype=torch.float64)
        share = torch.from_numpy(betaincinv(self.alpha, self.alpha, uniform.cpu().numpy()))
        return share.to(generator.device)


def remix_share(share: Tensor, ratio: Tensor, kappa: float, tau: float) -> Tensor:
    """Return the share [N] of each row's own label, from its share of the vector and its class size / its partner's.

    Chou et al., "Remix: rebalanced mixup", ECCV Workshops 2020.

    >>> remix_share(torch.tensor([0.4, 0.6, 0.6]), torch.tensor([90.0, 90.0, 1 / 90]), 3, 0.5).tolist()
    [0.0, 0.6000000238418579, 1.0]
    """
    all_partners = (ratio >= kappa) & (share < tau)
    all_own = (ratio <= 1 / kappa) & (1 - share < tau)
    return torch.where(all_partners, 0.0, torch.where(all_own, 1.0, share))


def _rare_partners(labels: Tensor, counts: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a partner [N] per row: a class of the batch in proportion to 1 / its count [C], then any of its rows."""
    in_batch = torch.bincount(labels, minlength=len(counts))
    edges = (1 / (counts * in_batch)[labels].double()).cumsum(0)
    uniform = torch.rand(len(labels), generator=generator, device=generator.device, dtype=torch.float64)
    return torch.searchsorted(edges, uniform * edges[-1], right=True).clamp(max=len(labels) - 1)
