"""Rules of loss methods: those in their own files, and those that follow from their neutral values."""

from collections.abc import Iterator

from frostbench.training.losses.loss import catalogue
from frostbench.training.losses.method import LossMethod
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec


def _method_rules() -> Iterator[Rule]:
    for field, kinds in catalogue().items():
        for kind in kinds:
            if kind.neutral:
                yield from _neutral_in_place(field, kind) if len(kinds) == 1 else [_neutral_of_kind(field, kind)]
            yield from kind.rules


def _neutral_in_place(field: str, method: type[LossMethod]) -> Iterator[Rule]:
    """Yield the rule of a method with its own field, if it has options besides those that make it neutral."""
    if not set(method.model_fields) - {"kind", *method.neutral}:
        return

    plain = method().model_copy(update=dict(method.neutral))

    def applies(run: RunSpec) -> bool:
        spec = getattr(run.train.loss, field)
        return bool(spec.is_neutral) and spec != plain

    yield Rule(
        "no effect",
        applies,
        f"{_stated(field, method)} turns {_words(field)} off, so its other options have no effect: change this value, "
        "or leave the others at their defaults",
    )


def _neutral_of_kind(field: str, method: type[LossMethod]) -> Rule:
    """Build the rule of one of a field's several kinds, which when neutral equals the first kind."""
    first, kind = catalogue()[field][0].model_fields["kind"].default, method.model_fields["kind"].default

    def applies(run: RunSpec) -> bool:
        spec = getattr(run.train.loss, field)
        return isinstance(spec, method) and spec.is_neutral and not run.is_fitted

    raised = " or ".join(f"train.loss.{field}.{name}" for name in method.neutral)
    return Rule(
        "no effect",
        applies,
        f"loss {kind} with these options is {_words(first)}: raise {raised}, or use train.loss.{field}.kind={first}",
    )


def _stated(field: str, method: type[LossMethod]) -> str:
    return " and ".join(f"train.loss.{field}.{name}={value:g}" for name, value in method.neutral.items())


def _words(name: str) -> str:
    return name.replace("_", " ")


METHOD_RULES: tuple[Rule, ...] = tuple(dict.fromkeys(_method_rules()))
"""The rules in catalogue order; a rule that several methods share is listed once."""
