"""Titles of options by path, through every kind."""

import pytest

from frostbench.benchmarks.settings.options import options
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.titles import label_of, named
from frostbench.training.run import RunSpec


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("train.optim.lr", "Learning rate"),
        ("head.classifier.kind", "Classifier"),
        ("head.classifier", "Classifier"),
        ("head.classifier<cosine>.scale", "Cosine classifier: scale"),
        ("head.classifier<ncm>.scale", "Nearest class mean: logit scale"),
        ("head.body.hidden.0", "MLP: widths of the hidden layers"),
        ("second.classifier.k", "kNN: neighbours k"),
        ("posthoc.shift.targets.rust", "Decision shift: targets by class"),
        ("train.optim.rate", "train.optim.rate"),
        ("head.classifier<knn>.margin", "head.classifier<knn>.margin"),
        ("", ""),
    ],
)
def test_a_path_has_the_title_of_its_option(path, label):
    assert label_of(RunSpec, path) == label


def test_settings_select_the_kind():
    tree = {"head": {"classifier": {"kind": "arcface", "scale": 30}}}
    assert label_of(RunSpec, "head.classifier.scale", tree) == "ArcFace scale"
    assert label_of(RunSpec, "head.classifier.k", tree) == "head.classifier.k"


def test_messages_omit_kinds():
    assert named(RunSpec, "train.optim<sgd>.lr") == "Learning rate (train.optim.lr)"
    assert named(RunSpec, "train.loss.gone") == "train.loss.gone"


@pytest.mark.parametrize("spec_type", [RunSpec, BenchSpec])
def test_every_option_is_found_by_its_path(spec_type):
    assert {o.path: label_of(spec_type, o.path) for o in options(spec_type)} == {
        o.path: o.title for o in options(spec_type)
    }
