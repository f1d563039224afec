"""The presets: each trains, and plain leaves every option at its neutral value."""

import re

import pytest
import torch

from frostbench.benchmarks.settings.options import options
from frostbench.benchmarks.settings.parsing import parse, preset, preset_names
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

NEUTRAL = {
    "shots": 0,
    "view_sets": (),
    "tta": (),
    "head.preprocess.center": False,
    "head.preprocess.std": False,
    "head.body.kind": "identity",
    "head.classifier.kind": "linear",
    "train.loss.point.kind": "cross_entropy",
    "train.loss.point_weight": 1,
    "train.loss.smoothing.epsilon": 0,
    "train.loss.class_weight.kind": "none",
    "train.loss.weight_schedule.kind": "constant",
    "train.loss.count": "images",
    "train.loss.logit_adjustment.tau": 0,
    "train.loss.hardmine.keep": 1,
    "train.loss.supcon.weight": 0,
    "train.loss.bcl.weight": 0,
    "train.loss.center.weight": 0,
    "train.loss.lade.weight": 0,
    "train.loss.mmce.weight": 0,
    "train.loss.mdca.weight": 0,
    "train.loss.consistency.weight": 0,
    "train.loss.fedlas.alpha": 0,
    "train.loss.vace.strength": 0,
    "train.loss.crl.weight": 0,
    "train.views": "samples",
    "train.oversample.kind": "none",
    "train.sampler.kind": "shuffled",
    "train.sampler<shuffled>.draw": "instance",
    "train.sampler<shuffled>.buffer_rows": None,
    "train.frofa.kind": "none",
    "train.augment.noise": 0,
    "train.augment.channel_scale": 0,
    "train.augment.gain": 0,
    "train.mixup.alpha": 0,
    "train.ema": 0,
    "second.kind": "none",
    "posthoc.adjustment.rule": "fixed",
    "posthoc.adjustment.tau": 0,
    "posthoc.deploy_prior": {},
    # Auto is neutral: a temperature changes no prediction.
    "posthoc.calibration.kind": "auto",
    "posthoc.thresholds.kind": "none",
    "posthoc.shift.kind": "none",
}
"""Options that switch a method on, and their value without the method."""
READ_WITH_A_METHOD = (
    "train.loss.smoothing.spread",
    "train.loss.logit_adjustment.prior",
    "train.loss.logit_adjustment.given",
    "train.sampler<shuffled>.block_rows",
    "posthoc.rows",
    *(f"train.loss.{term}." for term in ("fedlas", "vace", "hardmine", "supcon", "bcl", "center", "lade", "mmce")),
    "train.mixup.",
)
"""Options without effect while their method is at its neutral value."""
NO_METHOD = ("columns", "background", "order_seed", "seed", "train.optim", "train.schedule", "train.early_stop")
"""Options that every run has."""
LESS = {"train": {"schedule": {"epochs": 1, "min_steps": 300, "batch_size": 16}}}


def value_of(spec, path):
    for name in re.sub("<[^>]*>", "", path).split("."):
        spec = getattr(spec, name)
    return spec


def is_active(spec, path):
    """Return whether the option exists for the kinds of the spec."""
    tags = [(path[: found.start()], found[1]) for found in re.finditer("<([^>]*)>", path)]
    return all(value_of(spec, before).kind == kind for before, kind in tags)


def test_the_presets_are_known_methods():
    assert preset_names() == (
        *("arcface", "balanced_softmax", "baseline", "bcl", "cosface", "cosine", "crt", "fedlas_ls", "fedlas_ls_flat"),
        *("fedlas_ls_mean", "fedlas_ls_minus", "fedlas_ls_plus", "fedlas_ls_random", "fedlas_mbls", "focal_cb", "full"),
        *(
            "knn",
            "label_smoothing",
            "lda",
            "ldam_drw",
            "linear_probe",
            "logreg",
            "lws",
            "manifold_mixup",
            "mbls",
            "mlp",
        ),
        *("ncm", "plain", "prototype", "ridge", "smote", "supcon_ce", "tau_norm", "vace", "vace_row_decay"),
    )


def test_plain_has_every_option_at_its_neutral_value():
    plain = parse(RunSpec, preset("plain"))
    assert plain == RunSpec()
    assert {path: value_of(plain, path) for path in NEUTRAL} == NEUTRAL
    unlisted = [o.path for o in options(RunSpec) if is_active(plain, o.path) and o.path not in NEUTRAL]
    assert [path for path in unlisted if not path.startswith((*READ_WITH_A_METHOD, *NO_METHOD))] == []


@pytest.fixture(scope="module")
def shells():
    generator = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(4, 8, generator=generator)

    def part(counts):
        labels = torch.arange(4).repeat_interleave(torch.tensor(counts))
        return Part({"avg": centres[labels] + torch.randn(len(labels), 8, generator=generator)}, labels)

    return Data(part([60, 30, 16, 8]), part([20] * 4), part([20] * 4), ("cone", "conch", "cowrie", "turban"))


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_trains_a_head_that_has_learnt(name, shells):
    tree = preset(name)
    if "body" in tree.get("head", {}):
        tree["head"]["body"]["hidden"] = [16, 12]
    train = tree.setdefault("train", {})
    train["schedule"] = train.get("schedule", {}) | LESS["train"]["schedule"]
    *_, last = fit([parse(RunSpec, tree)], shells)
    assert isinstance(last, Finished)
    logits = last.head.logits({"avg": shells.select.columns["avg"]})
    assert (logits.argmax(1) == shells.select.labels).double().mean() > 0.6
