"""What a results page is made of."""

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
        bench: the bench, on this cache alone.
        chosen: the runs that stand for its rows.
        report: calibration on test rows.
        comparison: decisions on test rows.
    """

    head: str
    bench: BenchSpec
    chosen: ChosenRows
    report: CalibrationReport
    comparison: Comparison

    @property
    def cache(self) -> str:
        """Name of the cache's folder."""
        return self.chosen.cache.rsplit("/", 1)[-1]
