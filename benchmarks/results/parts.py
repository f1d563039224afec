"""Results of one bench on one cache, the input of a results page."""

from dataclasses import dataclass

from frostbench.benchmarks.calibration.report import CalibrationReport
from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.runs.tuning import ChosenRows
from frostbench.benchmarks.settings.plan import BenchSpec


@dataclass(frozen=True)
class Part:
    """One bench on one cache.

    Attributes:
        head: linear, mlp or experimental.
        bench: the bench, restricted to this cache.
        chosen: the runs that represent its rows.
        report: calibration on test rows.
        comparison: comparison of predicted classes on test rows.
    """

    head: str
    bench: BenchSpec
    chosen: ChosenRows
    report: CalibrationReport
    comparison: Comparison

    @property
    def cache(self) -> str:
        """Name of the cache folder."""
        return self.chosen.cache.rsplit("/", 1)[-1]
