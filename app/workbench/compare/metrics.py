"""Names of metrics, and how their numbers are written."""

from dataclasses import dataclass
from types import MappingProxyType

from frostbench.benchmarks.comparison.ab import Pair


@dataclass(frozen=True)
class Metric:
    """Display name and short explanation of a metric; a share is shown in per cent and its differences in points."""

    name: str
    hint: str
    is_share: bool = True


METRICS = MappingProxyType(
    {
        "macro_f1_fg": Metric("Macro F1", "all classes weigh the same"),
        "weighted_f1_fg": Metric("Weighted F1", "classes weighted by number of images"),
        "macro_precision_fg": Metric("Macro precision", "share of a class's predictions that are correct"),
        "macro_recall_fg": Metric("Macro recall", "share of a class's images that are found"),
        "accuracy": Metric("Accuracy", "share of images predicted correctly"),
        "balanced_accuracy": Metric("Balanced accuracy", "macro recall including background"),
        "recall_many": Metric("Recall, common classes", "more than 100 training images"),
        "recall_medium": Metric("Recall, medium classes", "20 to 100 training images"),
        "recall_few": Metric("Recall, rare classes", "fewer than 20 training images"),
        "nll": Metric("Log loss", "NLL of the true class", is_share=False),
        "brier": Metric("Brier score", "squared error of the probabilities", is_share=False),
        "ece": Metric("Calibration error", "ECE: gap between confidence and accuracy"),
    }
)


def by_metric(pair: Pair) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """Return the lines of A and B in the comparison's table, by metric."""
    lines: dict[str, dict[str, dict[str, float]]] = {}
    for line in pair.comparison.table.to_dict("records"):
        lines.setdefault(str(line["metric"]), {})[str(line["row"])] = {str(key): value for key, value in line.items()}
    return {metric: (sides["A"], sides["B"]) for metric, sides in lines.items()}
