"""Rules of what follows training: calibration, the prior of the deployment and decisions."""

from frostbench.heads.posthoc.decisions.shift import GivenShift, NoShift, WantedShift
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import is_adjusted, is_shifted


def _has_thresholds(run: RunSpec) -> bool:
    return isinstance(run.posthoc.thresholds, CoordinateAscent)


def _is_deployed(run: RunSpec) -> bool:
    """Whether probabilities are moved to a stated prior."""
    return bool(run.posthoc.deploy_prior)


def _shifts_nothing(run: RunSpec) -> bool:
    shift = run.posthoc.shift
    given = isinstance(shift, GivenShift) and not any(shift.logits.values())
    return given or (isinstance(shift, WantedShift) and not shift.targets)


def _is_judged_on_chosen_tau(run: RunSpec) -> bool:
    return run.posthoc.rows in ("select", "both") and run.posthoc.reads_rows and run.posthoc.adjustment.rule == "tuned"


POSTHOC_RULES: tuple[Rule, ...] = (
    Rule(
        "warn",
        lambda run: _has_thresholds(run) and (is_adjusted(run) or is_shifted(run)),
        "thresholds are a free logit adjustment of each class, so they go on from the one of train.loss or posthoc: "
        "compare with either alone, and set posthoc.thresholds.kind=none or the tau to 0",
    ),
    Rule(
        "warn",
        lambda run: _has_thresholds(run) and not isinstance(run.posthoc.shift, NoShift),
        "a shift follows the thresholds and so takes their classes off the values that were tuned: set "
        "posthoc.thresholds.kind=none or posthoc.shift.kind=none where one of them is enough",
    ),
    Rule(
        "no effect",
        lambda run: _is_deployed(run) and is_shifted(run),
        "probabilities are moved to posthoc.deploy_prior whatever prior they had, so posthoc.adjustment has no effect: "
        "use one of the two",
    ),
    Rule(
        "warn",
        _is_deployed,
        "select and test rows come with the class shares of the table, so figures under posthoc.deploy_prior are of "
        "another world than the one it states: compare rows of one deploy_prior with each other alone",
    ),
    # A warning, not "no effect": a form would else close the choice of the kind, which comes before the classes' names.
    Rule(
        "warn",
        _shifts_nothing,
        "posthoc.shift names no class, so it has no effect: give numbers by class name, or set posthoc.shift.kind=none",
    ),
    Rule(
        "no effect",
        lambda run: run.posthoc.rows != "auto" and not run.posthoc.reads_rows,
        "nothing after training is fitted to rows, so posthoc.rows has no effect: choose a posthoc.calibration, or "
        "set posthoc.rows=auto",
    ),
    Rule(
        "warn",
        _is_judged_on_chosen_tau,
        "calibration and decisions are cross-fitted on the selection rows and the tuned posthoc.adjustment is not, so "
        "its figures there are a little too good: give the split a calibrate share, or state the tau",
    ),
)
