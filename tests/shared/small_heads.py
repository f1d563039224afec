"""A small trained head on arrays, and vectors for it."""

import torch

from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import Calibration, Priors, TrainedHead

COLD = PosthocSpec(calibration=Temperature())
RECIPES = {"avg": {"hash": "3f9a", "model": "resnet", "size": 224}}


def some_head(classes=3, dim=5, calibrated=True, body="mlp"):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, dim, generator=generator)
    spec = HeadSpec.model_validate(
        {
            "preprocess": {"center": True, "std": True},
            "body": {"kind": "mlp", "hidden": [4]} if body == "mlp" else {"kind": "identity"},
        }
    )
    counts = torch.tensor([70, 20, 10] + [0] * (classes - 3))
    share = counts.double() / counts.sum()
    rows = Calibration(3 * torch.randn(60, classes, generator=generator), torch.arange(60) % 3) if calibrated else None
    if rows is not None:
        rows.logits[:, 3:] = -torch.inf
    return TrainedHead(
        spec=spec,
        head=spec.build(x, classes, generator).eval(),
        columns=("avg",),
        class_names=tuple("abcdef"[:classes]),
        priors=Priors(counts, share, share, share),
        shift=torch.tensor([0.5, 0.0, -0.5] + [0.0] * (classes - 3)),
        layers=Layers(COLD, tuple("abcdef"[:classes]), (), {"temperature": torch.tensor(1.5, dtype=torch.float64)}),
        calibration=rows,
        recipes=RECIPES,
        facts={"metrics": {"select": {"nll": 0.5}}},
    )


X = {"avg": torch.randn(7, 5, generator=torch.Generator().manual_seed(1))}
