"""Closed-form classifiers and second stages without gradient steps."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from frostbench.heads.closed_form.solved import solved_layer
from frostbench.heads.head import divided, fold_temperatures, linear_of
from frostbench.training.engine.events import Failed, Finished, Reason
from frostbench.training.engine.finish import finished, log_prior_in_logits
from frostbench.training.engine.run_context import RunContext
from frostbench.training.losses.loss import objective
from frostbench.training.metrics.classification import Preference, all_metrics, preference
from frostbench.training.spec.stage import metric_of_strengths


def fit_closed_form(contexts: Sequence[RunContext], epochs: tuple[int, ...] = ()) -> Iterable[Finished | Failed]:
    """Fit closed-form classifiers of one kind on bodies kept at these epochs, none if untrained; return the results."""
    if contexts[0].run.head.classifier.minimises_loss:
        return _minimise_losses(contexts, epochs)
    return (_fit(context, epochs) for context in contexts)


@torch.no_grad()
def _fit(context: RunContext, epochs: tuple[int, ...]) -> Finished | Failed:
    classifier, statistics = context.run.head.classifier, context.statistics
    rows = context.rows.for_classifier(context.head.body(context.rows.x), statistics, context.data.class_names)
    context.head.classifier = classifier.fit(rows)
    return finished(
        context, statistics, classifier.carried(statistics.log_prior_effective), "solved", sum(epochs), epochs
    )


def _minimise_losses(contexts: Sequence[RunContext], epochs: tuple[int, ...]) -> list[Finished | Failed]:
    """Solve all classifiers at once on the output of the first head's body.

    Several heads share the identity body; a single head may have a trained one.
    """
    first = contexts[0]
    with torch.no_grad():
        hidden = first.head.body(first.rows.x)
    specs = [context.run.head.classifier for context in contexts]

    def mean_losses(logits: Tensor, index: Tensor) -> Tensor:
        chosen = [contexts[i] for i in index.tolist()]
        return torch.stack([_mean_loss(s, z) for s, z in zip(chosen, logits, strict=True)])

    solutions = specs[0].solve_all(specs, hidden, mean_losses, len(first.data.class_names))
    results = []
    for context, solution in zip(contexts, solutions, strict=True):
        context.head.classifier = solved_layer(solution.weight, solution.bias)
        if context.temperatures is not None:
            fold_temperatures(context.head, context.temperatures.to(solution.weight))
        statistics, carried = context.statistics, log_prior_in_logits(context.run.train.loss, context.statistics)
        reason: Reason = "solved" if solution.is_converged else "not_converged"
        norm = solution.gradient_norm
        results.append(finished(context, statistics, carried, reason, sum(epochs), epochs, gradient_norm=norm))
    return results


def _mean_loss(context: RunContext, logits: Tensor) -> Tensor:
    tempered = divided(logits, context.temperatures)
    return objective(context.run.train.loss, tempered, context.rows.labels, context.statistics, 1.0)


def fit_closed_form_second(context: RunContext, epochs: tuple[int, ...]) -> Iterable[Finished | Failed]:
    """Run a second stage without gradient steps on a body that was kept at these epochs, and return the result."""
    classifier = context.run.second.replacement
    if classifier is None:
        return [_rescale(context, epochs)]
    return fit_closed_form([context.with_classifier(classifier)], epochs)


@torch.no_grad()
def _rescale(context: RunContext, epochs: tuple[int, ...]) -> Finished | Failed:
    """Rescale the weights [C, H] of a linear classifier as its second stage does, and set its biases to zero."""
    second, statistics = context.run.second, context.statistics
    linear, select = linear_of(context.head.classifier), context.data.select
    weight = linear.weight.clone()
    x = context.head.hidden(select.features(context.rows.columns))
    labels, counts, metric = select.labels.cpu(), context.rows.counts, context.run.train.early_stop.metric

    def value(strength: float) -> Preference:
        logits = (x @ second.rescaled(weight, strength).T).masked_fill(counts == 0, -torch.inf)
        metrics = all_metrics(logits.log_softmax(1).cpu(), labels, counts.cpu(), context.background)
        return preference(metrics, metric_of_strengths(metric))

    strength = max(second.strengths, key=value) if second.is_tuned else second.strengths[0]
    linear.weight.copy_(second.rescaled(weight, strength))
    linear.bias.zero_()
    carried = second.carried(statistics.log_prior_raw)
    return finished(context, statistics, carried, "solved", sum(epochs), epochs, power=strength)
