"""Methods that need one label per row, beside rows with two."""

import pytest
from catalogue import BASE, data, merged

from frostbench.heads.plugin_files import run_plugin
from frostbench.training.augment.mixup import Mixup
from frostbench.training.checks.conflicts import check
from frostbench.training.checks.data import check_data
from frostbench.training.losses.loss import catalogue
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import StageSpec

KINDS = [(field, kind) for field, kinds in catalogue().items() for kind in kinds if kind.__name__ != "ExternalLoss"]
MIXED = {"train": {"mixup": {"alpha": 1}}}


def run_with(field, kind, mixup):
    """A run with a method that is not neutral; its other options are not checked."""
    methods = [kind.model_construct(**dict.fromkeys(kind.neutral, number)) for number in (0.5, 2)]
    loss = RunSpec().train.loss.model_copy(update={field: next(m for m in methods if not m.is_neutral)})
    return RunSpec().model_copy(update={"train": StageSpec(mixup=mixup).model_copy(update={"loss": loss})})


@pytest.mark.parametrize(("field", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", value))
def test_mixup_is_refused_with_every_method_that_needs_one_label(field, kind):
    wanted = [("refuse", kind.needs_single_labels)] if kind.needs_single_labels else []
    wanted += [("warn", kind.prefers_single_labels)] if kind.prefers_single_labels else []
    plain, mixed = (run_with(field, kind, Mixup(alpha=alpha)) for alpha in (0, 1))
    assert [rule for rule in Mixup.rules if rule.applies(plain)] == []
    met = [rule for rule in Mixup.rules if rule.applies(mixed)]
    assert [rule.verdict for rule in met] == [verdict for verdict, _ in wanted]
    for rule, (_, reason) in zip(met, wanted, strict=True):
        assert f"but {reason}: set train.mixup.alpha=0, or " in rule.sentence
        assert f"train.loss.{field}." in rule.sentence


def test_these_methods_need_or_prefer_one_label():
    assert {kind.__name__ for _, kind in KINDS if kind.needs_single_labels} == {
        "AdaFocal",
        "Consistency",
        "Crl",
        "Lade",
        "Mmce",
    }
    assert {kind.__name__ for _, kind in KINDS if kind.prefers_single_labels} == {"HardMine"}


PLUGIN = """
from typing import ClassVar, Literal

from frostbench.training.losses.method import LossMethod

class Single(LossMethod):
    needs_single_labels: ClassVar[str] = "single reads the one label of a row"
    kind: Literal["single"] = "single"

    def __call__(self, scores, targets):
        return -targets.mean(scores.log_p)
"""


def test_mixup_is_refused_with_a_plugin_that_needs_one_label(tmp_path):
    file = tmp_path / "single.py"
    file.write_text(PLUGIN)
    run_plugin(file)
    loss = {"train": {"loss": {"point": {"kind": "external", "file": str(file), "name": "Single"}}}}
    check_data([RunSpec.model_validate(merged(BASE, loss))], data())
    mixed = RunSpec.model_validate(merged(BASE, loss, MIXED))
    assert check(mixed) == ()
    with pytest.raises(
        ValueError, match=r"two classes, but single reads the one label of a row\. Change train\.loss\.po"
    ):
        check_data([mixed], data())
