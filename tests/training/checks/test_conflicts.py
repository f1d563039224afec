"""Every rule: when it is met and when not, and that what it calls without effect has none."""

from pathlib import Path

import numpy as np
import pytest
import torch

from frostbench.app.sides import switches
from frostbench.benchmarks.settings.parsing import parse, preset, preset_names, with_changes
from frostbench.benchmarks.settings.reading import read_yaml
from frostbench.training.checks.conflicts import RULES, check
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

CASES = read_yaml(Path(__file__).with_name("conflicts.yaml").read_text(encoding="utf-8"))
QUICK = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0, "head.body.hidden": [12]}
CLASSES = ("ash", "beech", "cedar", "elm")


def run_of(changes):
    """The run with dotted changes from the defaults; a kind goes to its own."""
    return parse(RunSpec, with_changes(RunSpec().model_dump(mode="json"), changes))


def rules_of(says):
    return [rule for rule in RULES if says in rule.sentence]


def named(cases):
    return [pytest.param(case, id=case["says"]) for case in cases]


@pytest.mark.parametrize("case", named(CASES))
def test_a_rule_is_met_and_not_by_the_nearest_run(case):
    (rule,) = rules_of(case["says"])
    assert rule.applies(run_of(case["met"]))
    assert not rule.applies(run_of(case["near"]))
    assert "same" in case or rule.verdict != "no effect"
    if rule.verdict == "refuse":
        with pytest.raises(ValueError, match="Incompatible options: ") as refused:
            check(run_of(case["met"]))
        assert rule.sentence in str(refused.value)
    else:
        assert rule.sentence in check(run_of(case["met"]))


def test_a_bound_on_logits_counts_the_temperatures_that_divide_them():
    (rule,) = rules_of("the margin of mbls penalises nothing")
    mbls = {"head.classifier": {"kind": "cosine", "scale": 5}, "train.loss.point.kind": "mbls"}
    for vace, bound in (({}, 5), ({"acts_on": "logits"}, 10), ({"acts_on": "decay"}, 5)):
        run = run_of(mbls | {"train.loss.vace": {"strength": 1, **vace} if vace else {}})
        assert run.largest_logit == bound
        assert rule.applies(run) == (bound == 5)


def test_every_rule_has_a_case_and_says_what_to_do():
    told = [case["says"] for case in CASES]
    assert [rule.sentence for rule in RULES if not any(words in rule.sentence for words in told)] == []
    assert len({rule.sentence for rule in RULES}) == len(RULES)
    assert [rule.sentence for rule in RULES if rule.sentence.endswith(".")] == []


SOUND = [
    {},
    {"train.loss.logit_adjustment.tau": 1},
    {"head.body.kind": "mlp", "train.loss.supcon.weight": 0.35},
    {"head.body.kind": "mlp", "train.loss.supcon.weight": 0.35, "train.mixup.alpha": 0.5},
    {"head.body.kind": "mlp", "second.kind": "crt"},
    {"second.kind": "crt", "second.init": "keep"},
    {"head.body.kind": "mlp", "second": {"kind": "crt", "sampler": "square_root"}, "posthoc.adjustment.tau": 1},
    {"train.augment.noise": 0.1, "train.mixup.alpha": 0.2},
    {"head.body.kind": "mlp", "train.mixup": {"alpha": 1, "where": "hidden"}},
    {"head.body.kind": "mlp", "train.augment.gain": 0.2},
    {"train.loss.logit_adjustment.tau": 1, "train.loss.class_weight.kind": "effective"},
    {"train.loss.smoothing.epsilon": 0.1, "posthoc.adjustment.rule": "tuned"},
    {"train.oversample.kind": "smote", "train.loss.logit_adjustment.tau": 1},
    {"head.classifier.kind": "ridge", "train.oversample.kind": "smote", "posthoc.calibration.kind": "temperature"},
    {"head.classifier.kind": "logreg", "posthoc.adjustment.rule": "tuned", "train.early_stop.metric": "nll"},
    {"train.loss.point.kind": "focal", "train.loss.smoothing.epsilon": 0.1, "posthoc.calibration.kind": "temperature"},
    {"train.loss.point.kind": "mbls", "train.loss.logit_adjustment.tau": 1, "train.mixup.alpha": 0.2},
    {"train.loss.point.kind": "mbls", "head.classifier.kind": "cosine", "head.preprocess.center": True},
    {"train.loss.point.kind": "brier", "train.loss.smoothing.epsilon": 0.1, "train.loss.mdca.weight": 1},
    {"train.loss.point": {"kind": "dual_focal"}, "train.mixup.alpha": 0.2, "posthoc.calibration.kind": "temperature"},
    {
        "train.loss.mmce": {"weight": 2, "form": "weighted"},
        "train.loss.smoothing.spread": "others",
        "train.loss.smoothing.epsilon": 0.1,
    },
]


@pytest.mark.parametrize("changes", SOUND, ids=str)
def test_sound_combinations_say_nothing(changes):
    assert check(run_of(changes)) == ()


@pytest.mark.parametrize("name", preset_names())
def test_no_preset_says_anything(name):
    assert check(parse(RunSpec, preset(name))) == ()


@pytest.mark.parametrize("switch", switches(), ids=lambda switch: switch.name)
def test_a_switch_on_the_plain_head_does_what_it_says(switch):
    met = [rule for rule in RULES if rule.applies(run_of({**switch.sets, **switch.needs}))]
    assert [rule.sentence for rule in met if rule.verdict != "warn"] == []


@pytest.fixture(scope="module")
def groves(tmp_path_factory):
    """Four classes of 40, 16, 8 and 4 training rows, two to a group but of the first class four, and text weights."""
    generator = torch.Generator().manual_seed(0)
    centres = 1.5 * torch.randn(4, 6, generator=generator, dtype=torch.float64)

    def part(counts):
        labels = torch.arange(4).repeat_interleave(torch.tensor(counts))
        x = centres[labels] + torch.randn(len(labels), 6, generator=generator, dtype=torch.float64)
        return Part({"avg": x}, labels, torch.arange(len(labels)) // torch.where(labels == 0, 4, 2))

    file = tmp_path_factory.mktemp("text") / "text.npz"
    np.savez(file, weights=centres.numpy(), class_names=np.array(CLASSES))
    return Data(part([40, 16, 8, 4]), part([12] * 4), part([12] * 4), CLASSES), str(file)


def log_probabilities(changes, groves):
    data, text = groves
    whole = {path: value for path, value in QUICK.items() if path not in changes}
    if changes.get("head.body.kind") != "mlp":
        whole.pop("head.body.hidden")
    run = run_of(whole | {path: text if value == "TEXT" else value for path, value in changes.items()})
    *_, last = fit([run], data)
    assert isinstance(last, Finished)
    return last.head.logits({"avg": data.select.columns["avg"]}).double().log_softmax(1)


@pytest.mark.parametrize("case", named([case for case in CASES if "same" in case]))
def test_what_is_said_to_have_no_effect_has_none(case, groves):
    met, same = (log_probabilities(case[name], groves) for name in ("met", "same"))
    assert torch.allclose(met, same, rtol=0, atol=1e-5)


def test_a_difference_would_be_seen(groves):
    """Weights by groups leave a prior that logit adjustment takes out, and those by images leave none."""
    case = next(case for case in CASES if case["says"] == "inverse class weights leave a uniform effective prior")
    without = {path: value for path, value in case["near"].items() if path != "train.loss.logit_adjustment.tau"}
    near, plain = (log_probabilities(changes, groves) for changes in (case["near"], without))
    assert not torch.allclose(near, plain, rtol=0, atol=1e-3)
