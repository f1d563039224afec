"""Heads without gradient steps: classifiers that are solved or fitted, and second stages that take none."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from frostbench.heads.closed_form.solved import solved_layer
from frostbench.heads.head import divided, fold_temperatures, linear_of
from frostbench.training.engine.events import Failed, Finished, Reason
from frostbench.training.engine.finish import finished, log_prior_in_logits
from frostbench.training.engine.run_context import Setting
from frostbench.training.losses.loss import objective
from frostbench.training.metrics.classification import Preference, all_metrics, preference
from frostbench.training.spec.stage import metric_of_strengths


def closed(settings: Sequence[Setting], epochs: tuple[int, ...] = ()) -> Iterable[Finished | Failed]:
    """The heads with their classifiers in closed form, of one kind, on the output of bodies kept after an epoch."""
    if settings[0].run.head.classifier.minimises_loss:
        return solved(settings, epochs)
    return (fitted(setting, epochs) for setting in settings)


@torch.no_grad()
def fitted(setting: Setting, epochs: tuple[int, ...] = ()) -> Finished | Failed:
    """The head with its classifier fitted in closed form to the output of its body, which was kept after an epoch."""
    classifier, facts = setting.run.head.classifier, setting.facts
    rows = setting.rows.for_classifier(setting.head.body(setting.rows.x), facts, setting.data.class_names)
    setting.head.classifier = classifier.fit(rows)
    return finished(setting, facts, classifier.carried(facts.log_prior_effective), "solved", sum(epochs), epochs)


def solved(settings: Sequence[Setting], epochs: tuple[int, ...] = ()) -> list[Finished | Failed]:
    """The heads with classifiers that minimise the loss, all of them at once, on the output of the first one's body.

    Several heads share their body, which is the identity; one alone may have a body that was kept after an epoch.
    """
    one = settings[0]
    with torch.no_grad():
        hidden = one.head.body(one.rows.x)
    specs = [setting.run.head.classifier for setting in settings]

    def mean_losses(logits: Tensor, index: Tensor) -> Tensor:
        chosen = [settings[i] for i in index.tolist()]
        return torch.stack([_mean_loss(s, z) for s, z in zip(chosen, logits, strict=True)])

    found = specs[0].solve_all(specs, hidden, mean_losses, len(one.data.class_names))
    results = []
    for setting, solution in zip(settings, found, strict=True):
        setting.head.classifier = solved_layer(solution.weight, solution.bias)
        if setting.temperatures is not None:
            fold_temperatures(setting.head, setting.temperatures.to(solution.weight))
        facts, carried = setting.facts, log_prior_in_logits(setting.run.train.loss, setting.facts)
        reason: Reason = "solved" if solution.is_converged else "not_converged"
        norm = solution.gradient_norm
        results.append(finished(setting, facts, carried, reason, sum(epochs), epochs, gradient_norm=norm))
    return results


def _mean_loss(setting: Setting, logits: Tensor) -> Tensor:
    tempered = divided(logits, setting.temperatures)
    return objective(setting.run.train.loss, tempered, setting.rows.labels, setting.facts, 1.0)


def closed_second(setting: Setting, epochs: tuple[int, ...]) -> Iterable[Finished | Failed]:
    """The head after its second stage, which takes no gradient steps, on the body that was kept after an epoch."""
    classifier = setting.run.second.replacement
    if classifier is None:
        return [_rescaled(setting, epochs)]
    return closed([setting.with_classifier(classifier)], epochs)


@torch.no_grad()
def _rescaled(setting: Setting, epochs: tuple[int, ...]) -> Finished | Failed:
    """The head with the weights [C, H] that its second stage makes of a linear classifier's, and without biases."""
    second, facts = setting.run.second, setting.facts
    linear, select = linear_of(setting.head.classifier), setting.data.select
    weight = linear.weight.clone()
    x = setting.head.hidden(select.features(setting.rows.columns))
    labels, counts, metric = select.labels.cpu(), setting.rows.counts, setting.run.train.early_stop.metric

    def value(strength: float) -> Preference:
        logits = (x @ second.rescaled(weight, strength).T).masked_fill(counts == 0, -torch.inf)
        found = all_metrics(logits.log_softmax(1).cpu(), labels, counts.cpu(), setting.background)
        return preference(found, metric_of_strengths(metric))

    strength = max(second.strengths, key=value) if second.is_tuned else second.strengths[0]
    linear.weight.copy_(second.rescaled(weight, strength))
    linear.bias.zero_()
    carried = second.carried(facts.log_prior_raw)
    return finished(setting, facts, carried, "solved", sum(epochs), epochs, power=strength)
