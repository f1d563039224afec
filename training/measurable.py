"""Whether the metrics that a run is judged by can be computed on the selection rows."""

from collections.abc import Mapping, Sequence

from heads.head import Closed
from training.data import Data
from training.metrics import MANY_ABOVE, decision_metrics, to_raise
from training.run import RunSpec
from training.second import Crt, Lws, SteppedSecond, TauNorm, metric_of
from training.stage_spec import StopMetric
from training.views import images_per_class


def check_metrics(run: RunSpec, data: Data, background: Sequence[int]) -> None:
    """Refuse a run whose metrics count no class of the selection rows, whatever is predicted for these.

    Raises:
        ValueError: that is so, or a second stage limits the loss of frequent classes and there are none.
    """
    stop, second = run.train.early_stop, run.second
    is_stepped = not isinstance(run.head.classifier, Closed)
    is_judged = is_stepped and stop.metric != "last" and stop.epoch is None
    is_tuned = run.posthoc.adjustment.rule == "tuned" or (isinstance(second, TauNorm) and second.tau is None)
    again = second if is_stepped and isinstance(second, Crt | Lws) and second.epoch is None else None
    if not (is_judged or is_tuned or again):
        return
    labels = data.select.labels.cpu()
    counts = images_per_class(data.train.labels, data.train.images, len(data.class_names)).cpu()
    found = decision_metrics(labels, labels, counts, background)
    found["nll"] = 0.0 if (counts[labels] > 0).any() else None
    if is_judged or is_tuned:
        to_raise(found, "macro_f1_fg" if stop.metric == "last" else stop.metric)
    if again:
        _check_second(again, stop.metric, found)


def _check_second(second: SteppedSecond, first: StopMetric, found: Mapping[str, float | None]) -> None:
    """What the epochs of a second stage are judged by can be computed."""
    metric = metric_of(second, first)
    if metric != "last":
        to_raise(dict(found), metric)
    if second.max_head_loss is not None and found["recall_many"] is None:
        raise ValueError(
            f"second.max_head_loss limits the loss of classes with more than {MANY_ABOVE} training rows, however: no "
            "such class has selection rows. Leave it out, or judge by second.metric=balanced_accuracy."
        )
