"""Rules of second stages: those that follow from their protocol, and those of each method."""

from typing import get_args

from frostbench.training.rule import Rule
from frostbench.training.run import SecondStageSpec
from frostbench.training.second_stage.protocol import SecondStage

METHODS: tuple[type[SecondStage], ...] = get_args(get_args(SecondStageSpec)[0])

SECOND_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: run.second.rescales_rows and not run.head.classifier.is_linear and not run.is_solved,
        "this second stage rescales the weights of a linear classifier, but cosine classifiers ignore their length: "
        "use head.classifier.kind=linear, or another second.kind",
    ),
    Rule(
        "warn",
        lambda run: run.second.trains_classifier and run.is_adjusted and not run.reads_loss_last,
        "this second stage trains a classifier without logit adjustment, so train.loss.logit_adjustment acts only on "
        "the first stage: set its tau to 0, or second.kind=none",
    ),
    Rule(
        "warn",
        lambda run: run.second.rescales_rows and (run.is_adjusted or run.is_weighted),
        "this second stage corrects for class sizes, as logit adjustment or class weights do in the first stage: use "
        "one of them",
    ),
    *dict.fromkeys(rule for method in METHODS for rule in method.rules),
)
