"""What a reader must know of a calibration before trusting it."""

from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.none import NoCalibration
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature, at_bound
from frostbench.heads.posthoc.spec import PosthocSpec

INSTEAD = "Keep more rows for calibration, or set posthoc.calibration.kind=none"


def told_of_calibration(spec: PosthocSpec, temperature: float, rows: Calibration | None) -> tuple[str, ...]:
    """A sentence on a head's calibration, where its rows have no optimum.

    Rows that are all classified right are the likelier, the surer the head is made. Rows that are no better than a
    guess are so, the less sure it is made; and scores of another scale than probabilities have may have their optimum
    outside of the search. An automatic temperature is bounded by its prior where all rows are right, but not there.

    Args:
        spec: what was asked for.
        temperature: that was fitted; 1 where another calibration was.
        rows: that it was fitted to.
    """
    kind = spec.calibration.kind
    if isinstance(spec.calibration, NoCalibration) or rows is None or len(rows.labels) == 0:
        return ()
    is_one = isinstance(spec.calibration, Temperature | AutoTemperature)
    fitted = f"a temperature of {temperature:.3g}" if is_one else f"{kind} calibration"
    if not isinstance(spec.calibration, AutoTemperature) and (rows.logits.argmax(1) == rows.labels).all():
        return (
            f"all {len(rows.labels)} calibration rows are classified right, so they set no limit to how sure {fitted} "
            f"makes the head. {INSTEAD}",
        )
    if is_one and at_bound(temperature):
        why = "scores are very small" if temperature < 1 else "head is no better there than a guess"
        return (
            f"{fitted} lies at the bound of its search on {len(rows.labels)} calibration rows: the {why}, or the rows "
            f"are labelled wrong. Look at the labels of these rows. {INSTEAD}",
        )
    return ()
