"""Warnings about a calibration that has no optimum on its rows."""

from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.none import NoCalibration
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature, at_bound
from frostbench.heads.posthoc.spec import PosthocSpec

INSTEAD = "Keep more rows for calibration, or set posthoc.calibration.kind=none"


def calibration_warnings(spec: PosthocSpec, temperature: float, rows: Calibration | None) -> tuple[str, ...]:
    """Return a warning about a head's calibration if it has no optimum on its rows.

    If all rows are classified correctly, the likelihood always rises with the confidence; if predictions are no better
    than chance, it falls. Scores on another scale may have their optimum outside the search range. The prior of an
    automatic temperature keeps it within the range in the first case, but not always in the others.

    Args:
        spec: the configured post-hoc layers.
        temperature: the fitted temperature, or 1 for another calibration.
        rows: the rows of the fit.
    """
    kind = spec.calibration.kind
    if isinstance(spec.calibration, NoCalibration) or rows is None or len(rows.labels) == 0:
        return ()
    n, is_temperature = len(rows.labels), isinstance(spec.calibration, Temperature | AutoTemperature)
    fitted = f"a temperature of {temperature:.3g}" if is_temperature else f"{kind} calibration"
    if not isinstance(spec.calibration, AutoTemperature) and (rows.logits.argmax(1) == rows.labels).all():
        return (
            f"{'the only calibration row is' if n == 1 else f'all {n} calibration rows are'} classified correctly, so "
            f"nothing limits the confidence that {fitted} gives the head. {INSTEAD}",
        )
    if is_temperature and at_bound(temperature):
        why = "scores are very small" if temperature < 1 else "head is no better than chance on them"
        return (
            f"{fitted} lies at the bound of the search on {n} calibration {'row' if n == 1 else 'rows'}: the {why}, or "
            f"some labels are wrong. Check the labels of these rows. {INSTEAD}",
        )
    return ()
