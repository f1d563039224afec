"""What is done to heads without gradient steps: classifiers that are solved or fitted, and tau-normalisation."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from frostbench.heads.closed_form.solved import solved_layer
from frostbench.heads.head import Fitted, divided, fold_temperatures, linear_of
from frostbench.heads.logreg.logreg import LogisticRegression, solve_path
from frostbench.training.engine.events import Failed, Finished, Reason
from frostbench.training.engine.finish import finished, log_prior_in_logits
from frostbench.training.engine.run_context import Setting
from frostbench.training.losses.loss import objective
from frostbench.training.metrics.classification import Preference, all_metrics, preference
from frostbench.training.second import TauNorm
from frostbench.training.spec.stage import metric_of_strengths

POWERS = tuple(k / 10 for k in range(21))
"""Powers that tau-normalisation chooses from (Kang et al., ICLR 2020)."""


@torch.no_grad()
def fitted(setting: Setting, epochs: tuple[int, ...] = ()) -> Finished | Failed:
    """The head with its classifier fitted in closed form to the output of its body, which was kept after an epoch."""
    classifier, facts = setting.run.head.classifier, setting.facts
    if not isinstance(classifier, Fitted):
        raise TypeError(f"{classifier.kind} is not fitted in closed form.")
    rows = setting.rows.for_classifier(setting.head.body(setting.rows.x), facts, setting.data.class_names)
    setting.head.classifier = classifier.fit(rows)
    return finished(setting, facts, classifier.carried(facts.log_prior_effective), "solved", sum(epochs), epochs)


def solved(settings: Sequence[Setting], epochs: tuple[int, ...] = ()) -> list[Finished | Failed]:
    """The heads with logistic regression solved in float64, all of them at once, on the output of the first one's body.

    Several heads share their body, which is the identity; one alone may have a body that was kept after an epoch.
    """
    one = settings[0]
    with torch.no_grad():
        hidden = one.head.body(one.rows.x)
    specs = [s.run.head.classifier for s in settings if isinstance(s.run.head.classifier, LogisticRegression)]

    def mean_losses(logits: Tensor, index: Tensor) -> Tensor:
        chosen = [settings[i] for i in index.tolist()]
        return torch.stack([_mean_loss(s, z) for s, z in zip(chosen, logits, strict=True)])

    found = solve_path(specs, hidden, mean_losses, len(one.data.class_names))
    results = []
    for setting, spec, solution in zip(settings, specs, found, strict=True):
        setting.head.classifier = solved_layer(solution.weight, solution.bias)
        if setting.temperatures is not None:
            fold_temperatures(setting.head, setting.temperatures.to(solution.weight))
        is_solved, norm = solution.gradient_norm <= spec.tolerance, solution.gradient_norm
        facts, carried = setting.facts, log_prior_in_logits(setting.run.train.loss, setting.facts)
        reason: Reason = "solved" if is_solved else "not_converged"
        results.append(finished(setting, facts, carried, reason, sum(epochs), epochs, gradient_norm=norm))
    return results


def _mean_loss(setting: Setting, logits: Tensor) -> Tensor:
    tempered = divided(logits, setting.temperatures)
    return objective(setting.run.train.loss, tempered, setting.rows.labels, setting.facts, 1.0)


@torch.no_grad()
def normalised(setting: Setting, epochs: tuple[int, ...]) -> Finished | Failed:
    """The head with each class's weights [H] divided by a power of their length, and without biases."""
    spec = setting.run.second
    if not isinstance(spec, TauNorm):
        raise TypeError(f"second stage {spec.kind} is not tau_norm.")
    linear, select = linear_of(setting.head.classifier), setting.data.select
    weight = linear.weight.clone()
    x = setting.head.hidden(select.features(setting.rows.columns))
    labels, counts, metric = select.labels.cpu(), setting.rows.counts, setting.run.train.early_stop.metric

    def value(power: float) -> Preference:
        logits = (x @ tau_normalised(weight, power).T).masked_fill(counts == 0, -torch.inf)
        found = all_metrics(logits.log_softmax(1).cpu(), labels, counts.cpu(), setting.background)
        return preference(found, metric_of_strengths(metric))

    power = max(POWERS, key=value) if spec.tau is None else spec.tau
    linear.weight.copy_(tau_normalised(weight, power))
    linear.bias.zero_()
    carried = torch.full_like(setting.facts.log_prior_raw, -math.log(len(setting.facts.present)))
    return finished(setting, setting.facts, carried, "solved", sum(epochs), epochs, power=power)


def tau_normalised(weight: Tensor, power: float) -> Tensor:
    """Rows [C, H] divided by their length to a power; rows of zeros stay.

    >>> tau_normalised(torch.tensor([[3.0, 4], [0, 0.5]]), 0.5)
    tensor([[1.3416, 1.7889],
            [0.0000, 0.7071]])
    """
    length = weight.norm(dim=1, keepdim=True)
    return weight / torch.where(length > 0, length, torch.ones_like(length)).pow(power)
