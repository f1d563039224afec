"""Four rows of four classes, and losses of one sample on them."""

import torch

from frostbench.training.losses.acls import Acls
from frostbench.training.losses.brier import Brier
from frostbench.training.losses.cpc import Cpc
from frostbench.training.losses.entropy import Ecp
from frostbench.training.losses.focal import DualFocal, Flsd53
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.mbls import Mbls
from frostbench.training.losses.scores import Scores

Z = torch.tensor(
    [[2, 0.5, -1, 0], [0.2, 1.5, 0.3, -0.5], [1, 0, 3, -2], [4, -3, 0.5, 1]],
    dtype=torch.float64,
)
Y = torch.tensor([0, 1, 3, 0])
POINTS = {
    "mbls": Mbls(margin=2),
    "acls": Acls(margin=2),
    "ecp": Ecp(),
    "cpc": Cpc(),
    "brier": Brier(),
    "flsd53": Flsd53(),
    "dual_focal": DualFocal(),
}


def seen(logits):
    return Scores(logits, logits, logits.log_softmax(-1))


def each(point, logits=Z, labels=Y, smoothing=None):
    even = logits.new_full(logits.shape[-1:], 1 / logits.shape[-1])
    return point(seen(logits), (smoothing or LabelSmoothing())(labels, even))


def slope(value, logits=Z):
    z = logits.clone().requires_grad_()
    value(z).backward()
    return z.grad
