"""Terms of an objective beside the mean of the point loss: they compare the rows of a batch with one another."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from frostbench.heads.head import Core
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.training.loss_state import Updates
from frostbench.training.losses.class_statistics import Facts
from frostbench.training.losses.loss import Branch, LossSpec, of_present


class Terms(nn.Module):
    """The terms that a loss asks for, with what they train or remember beside the head, all of which is thrown away.

    Attributes:
        projector: what supcon compares.
        projectors: what bcl compares, of rows and of the classifier's weights.
        centers: [C+, H] of the centre loss.
        views: of each image, one after another in a batch; 1 where rows are drawn one by one.
    """

    centers: Tensor

    def __init__(self, spec: LossSpec, core: Core, generator: torch.Generator) -> None:
        super().__init__()
        width = core.width
        self.spec, self.views = spec, 1
        self.projector = spec.supcon.projector.build(width, generator) if spec.supcon.weight > 0 else nn.Identity()
        pair = [spec.bcl.projector.build(width, generator) for _ in range(2)] if spec.bcl.weight > 0 else []
        self.projectors = nn.ModuleList(pair)
        self.register_buffer("centers", torch.zeros(0, width))

    @property
    def reads_hidden(self) -> bool:
        """Whether a term reads the classifier's input."""
        return self.spec.supcon.weight > 0 or self.spec.bcl.weight > 0 or self.spec.center.weight > 0

    @torch.no_grad()
    def prepare(self, hidden: Tensor, labels: Tensor, facts: Facts) -> None:
        """Take the first centres from the classifier's inputs [N, H] of all training rows."""
        if self.spec.center.weight > 0:
            self.centers = self.spec.center.start(hidden, facts.position[labels], len(facts.present))

    def forward(
        self,
        spec: LossSpec,
        core: Core,
        hidden: Tensor | None,
        logits: Tensor,
        labels: Tensor,
        branches: Sequence[Branch],
        facts: Facts,
    ) -> tuple[Tensor, Updates]:
        """The sum of the terms, each with its coefficient, and the buffers after the step.

        Args:
            spec: the loss with a head's own numbers; which terms there are was decided at the start.
            core: the head.
            hidden: the classifier's inputs [N, H] of unmixed rows, for a contrast needs rows of one class; None where
                no term reads them.
            logits: [N, C] of the rows.
            labels: [N] of the rows themselves.
            branches: the labels of the rows as they were mixed, with their shares; one where none were.
            facts: of the training rows.
        """
        own, total, updates = facts.position[labels], logits.new_zeros(()), {}
        if hidden is not None and self.spec.supcon.weight > 0:
            total = total + spec.supcon.weight * spec.supcon(self.projector(hidden), own, facts.weight)
        if hidden is not None and self.spec.bcl.weight > 0:
            of_rows, of_classes = self.projectors
            prototypes = of_classes(_classes(core, facts))
            total = total + spec.bcl.weight * spec.bcl(of_rows(hidden), own, prototypes)
        if hidden is not None and self.spec.center.weight > 0:
            total = total + spec.center.weight * spec.center(hidden, own, self.centers)
            updates["terms.centers"] = spec.center.moved(hidden, own, self.centers).detach()
        if self.spec.lade.weight > 0:
            total = total + spec.lade.weight * spec.lade(of_present(logits, facts), own, facts.drawn.log())
        if self.spec.consistency.weight > 0:
            total = total + spec.consistency.weight * spec.consistency(of_present(logits, facts), self.views)
        if self.spec.mmce.weight > 0:
            total = total + spec.mmce.weight * spec.mmce(of_present(logits, facts), own)
        if self.spec.mdca.weight > 0:
            shared = [(facts.position[branch.labels], branch.share) for branch in branches]
            total = total + spec.mdca.weight * spec.mdca(of_present(logits, facts), shared)
        return total, updates


def _classes(core: Core, facts: Facts) -> Tensor:
    """The classifier's weights [C+, H], of several centres the first."""
    weight = cast(Tensor, core.classifier.weight)
    every = weight[:, 0] if isinstance(core.classifier, CosineLayer) else weight
    return every if facts.has_all else every.index_select(0, facts.present)
