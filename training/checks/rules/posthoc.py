"""Rules of post-hoc steps: calibration, deployment prior and decisions."""

from frostbench.heads.posthoc.decisions.shift import GivenShift, NoShift, WantedShift
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec


def _has_thresholds(run: RunSpec) -> bool:
    return isinstance(run.posthoc.thresholds, CoordinateAscent)


def _is_deployed(run: RunSpec) -> bool:
    """Whether probabilities are adjusted to a given prior."""
    return bool(run.posthoc.deploy_prior)


def _shifts_nothing(run: RunSpec) -> bool:
    shift = run.posthoc.shift
    given = isinstance(shift, GivenShift) and not any(shift.logits.values())
    return given or (isinstance(shift, WantedShift) and not shift.targets)


def _reuses_tuning_rows(run: RunSpec) -> bool:
    return run.posthoc.rows in ("select", "both") and run.posthoc.reads_rows and run.posthoc.adjustment.rule == "tuned"


POSTHOC_RULES: tuple[Rule, ...] = (
    Rule(
        "warn",
        lambda run: _has_thresholds(run) and (run.is_adjusted or run.is_shifted),
        "thresholds are a free logit adjustment per class, on top of the one set in train.loss or posthoc: compare "
        "with each alone, and set posthoc.thresholds.kind=none or tau=0 if one is enough",
    ),
    Rule(
        "warn",
        lambda run: _has_thresholds(run) and not isinstance(run.posthoc.shift, NoShift),
        "a shift after the thresholds moves its classes away from their tuned values: set posthoc.thresholds.kind=none "
        "or posthoc.shift.kind=none if one of them is enough",
    ),
    Rule(
        "no effect",
        lambda run: _is_deployed(run) and run.is_shifted,
        "probabilities are adjusted to posthoc.deploy_prior whatever their prior is, so posthoc.adjustment has no "
        "effect: use one of them",
    ),
    Rule(
        "warn",
        _is_deployed,
        "validation and test rows have the class shares of the table, not those of posthoc.deploy_prior, so metrics do "
        "not describe the deployment: compare only runs with the same deploy_prior",
    ),
    # Only a warning, because forms disable an option of no effect, and the kind is chosen before the class names.
    Rule(
        "warn",
        _shifts_nothing,
        "posthoc.shift names no class, so it has no effect: give values by class name, or set posthoc.shift.kind=none",
    ),
    Rule(
        "no effect",
        lambda run: run.posthoc.rows != "auto" and not run.posthoc.reads_rows,
        "no post-hoc step is fitted to rows, so posthoc.rows has no effect: choose a posthoc.calibration, or set "
        "posthoc.rows=auto",
    ),
    Rule(
        "warn",
        _reuses_tuning_rows,
        "calibration and decisions are cross-fitted on the validation rows, but the tuned posthoc.adjustment is not, "
        "so validation metrics are slightly optimistic: give the split a calibrate share, or set a fixed tau",
    ),
)
