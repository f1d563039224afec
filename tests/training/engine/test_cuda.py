"""Every method on a CUDA device gives a head similar to that on the CPU, and the same one twice."""

import pytest
import torch
from catalogue import CASES, data, trained
from conformance import three, with_features

from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import decision_metrics
from frostbench.training.run import RunSpec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
MLP = {"head": {"body": {"kind": "mlp", "hidden": [64, 32]}}}
RUNS = {
    "plain": {},
    "weighted": {"train": {"loss": {"class_weight": {"kind": "effective"}, "smoothing": {"epsilon": 0.1}}}},
    "mined": MLP
    | {"train": {"loss": {"hardmine": {"keep": 0.5}}}, "posthoc": {"calibration": {"kind": "temperature"}}},
    "adjusted": {"train": {"loss": {"logit_adjustment": {"tau": 1.0}}}, "posthoc": {"adjustment": {"tau": 0.5}}},
    "logreg": {"head": {"preprocess": {"center": True, "std": True}, "classifier": {"kind": "logreg"}}},
    "augmented": MLP | {"train": {"augment": {"noise": 0.1, "channel_scale": 0.1, "gain": 0.1}}},
    "mixed": MLP | {"train": {"mixup": {"alpha": 1.0, "where": "hidden"}}},
    "contrasted": MLP | {"train": {"loss": {"supcon": {"weight": 0.35, "projector": {"kind": "mlp"}}}}},
    "crt": MLP | {"second": {"kind": "crt", "epochs": 40, "lr": 0.01}},
}


def table(device):
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(6, 32, generator=generator)

    def part(rows):
        labels = torch.arange(rows) % 6
        labels = torch.where(torch.arange(rows) % 2 == 0, torch.zeros_like(labels), labels)
        noise = torch.randn(rows, 32, generator=generator)
        return Part({"x": (0.7 * centres[labels] + noise).to(device)}, labels.to(device))

    return Data(part(600), part(240), part(120), tuple("abcdef"))


def head_and_f1(tree, device):
    data = table(device)
    schedule = {"epochs": 30, "min_steps": 0}
    solved = tree.get("head", {}).get("classifier", {}).get("kind") == "logreg"
    spec = RunSpec.model_validate(tree | {"train": tree.get("train", {}) | ({} if solved else {"schedule": schedule})})
    (end,) = [event for event in fit([spec], data) if isinstance(event, Finished)]
    logits = end.head.logits({name: x.cpu() for name, x in data.select.columns.items()})
    f1 = decision_metrics(data.select.labels.cpu(), logits.argmax(1), end.head.priors.counts)["macro_f1_fg"]
    return end.head, f1


@pytest.mark.parametrize("name", RUNS)
def test_a_device_gives_a_head_like_the_cpu_and_the_same_one_again(name):
    head, f1 = head_and_f1(RUNS[name], "cuda")
    again, _ = head_and_f1(RUNS[name], "cuda")
    _, on_cpu = head_and_f1(RUNS[name], "cpu")
    assert f1 == pytest.approx(on_cpu, abs=0.08)
    assert f1 > 0.5
    for key, values in head.head.state_dict().items():
        assert values.device.type == "cpu"
        assert torch.allclose(values, again.head.state_dict()[key], atol=1e-5)


@pytest.mark.parametrize("name", [name for name, run in CASES.items() if run.shots == 0])
def test_a_stack_on_a_device_equals_a_loop_there(name):
    """Every option, with three heads that differ in all values that may differ; in float64, where sums agree."""
    rows = with_features(data(), lambda x: x.cuda())
    rows = Data(*(_moved(part) for part in (rows.train, rows.select, rows.calibrate)), rows.class_names)
    runs = three(CASES[name])
    for stacked, run in zip(trained(runs, rows), runs, strict=True):
        (alone,) = trained([run], rows)
        assert (stacked.reason, stacked.epoch) == (alone.reason, alone.epoch)
        x = {key: value.cpu() for key, value in rows.select.columns.items()}
        found, wanted = (end.head.log_probabilities(x)[:, :4].detach() for end in (stacked, alone))
        assert (found - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def _moved(part):
    return Part(part.columns, part.labels.cuda(), part.groups.cuda())
