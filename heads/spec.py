"""Specs: pydantic models that define every option of Frostbench."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator
from pydantic.fields import FieldInfo

from frostbench.heads.walk import plain_path, walk

Tier = Literal["core", "experimental"]
SpecT = TypeVar("SpecT", bound="Spec")
SWEPT: dict[str, JsonValue] = {"swept": True}
"""json_schema_extra of a number that may differ between heads trained together in one stack."""
FILE: dict[str, JsonValue] = {"is_file": True}
"""json_schema_extra of the path to a file that a spec reads; the app's page restricts such paths."""


def empty(words: str) -> dict[str, JsonValue]:
    """Return json_schema_extra that tells a form what an empty value of an optional field means."""
    return {"empty": words}


class Spec(BaseModel):
    """An immutable group of options. Its fields are the YAML keys, the form controls and the rows of docs/options.md.

    Raises:
        pydantic.ValidationError: a field is unknown, out of bounds or not an allowed choice.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
        json_schema_serialization_defaults_required=True,
    )

    spec_version: ClassVar[int] = 1
    """Increment it when a default or the numerics behind this spec change, so that new runs get new keys."""
    tier: ClassVar[Tier] = "core"
    """Core methods have results on real data in docs/results; experimental ones are only tested."""

    @model_validator(mode="before")
    @classmethod
    def _reject_booleans_as_numbers(cls, tree: Any) -> Any:
        for name, field in cls.model_fields.items():
            if isinstance(tree, dict) and isinstance(tree.get(name), bool) and field.annotation in (int, float):
                raise ValueError(f"{name} must be a number, got {str(tree[name]).lower()}.")
        return tree


def numbers(spec: Spec) -> dict[str, float]:
    """Return the swept numbers of a spec and the specs below it, by dotted path, without those that are None.

    >>> from pydantic import Field
    >>> class Loss(Spec):
    ...     tau: float = Field(default=0.5, json_schema_extra=SWEPT)
    ...     name: str = "a"
    >>> class Run(Spec):
    ...     loss: Loss = Loss()
    >>> numbers(Run())
    {'loss.tau': 0.5}
    """
    return {plain_path(n.path): n.value for n in walk(spec) if n.value is not None and _is_swept(n.field)}


def with_numbers(spec: SpecT, values: Mapping[str, Any]) -> SpecT:
    """Return a copy of a spec with new values at dotted paths; values are not checked, so they may be tensors."""
    own = {path: value for path, value in values.items() if "." not in path}
    below: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, dot, rest = path.partition(".")
        if dot:
            below.setdefault(name, {})[rest] = value
    return spec.model_copy(update=own | {name: with_numbers(getattr(spec, name), v) for name, v in below.items()})


def skeleton(spec: Spec) -> str:
    """Return the spec without its swept numbers, as a string: equal for specs whose heads can be trained as one stack.

    A swept number of 0 is kept, because the training step omits its term.
    """
    swept = {path: "swept" for path, number in numbers(spec).items() if number != 0}
    # Without warnings: pydantic warns about a string in place of a number.
    return with_numbers(spec, swept).model_dump_json(warnings=False)


def _is_swept(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and extra.get("swept") is True


def canonical(spec: BaseModel) -> dict[str, Any]:
    """Return the tree that identifies a spec: `kind`, a `spec_version` above 1, and fields that differ from defaults.

    Fields at their default are omitted, so that a new option does not change existing run keys. A nested spec at its
    default is omitted too, unless its version was incremented, because its default then has another meaning.

    >>> class Inner(Spec):
    ...     kind: Literal["inner"] = "inner"
    ...     rate: float = 0.5
    >>> class Outer(Spec):
    ...     inner: Inner = Inner()
    ...     steps: int = 3
    >>> canonical(Outer())
    {}
    >>> canonical(Outer(inner=Inner(rate=1)))
    {'inner': {'kind': 'inner', 'rate': 1.0}}
    >>> Inner.spec_version = 2
    >>> canonical(Outer())
    {'inner': {'kind': 'inner', 'spec_version': 2}}
    """
    # Not by `walk`: the result is a nested tree, and specs in lists and dicts count too.
    tree: dict[str, Any] = {}
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        plain = _canonical_value(value)
        at_default = not field.is_required() and value == field.get_default(call_default_factory=True)
        if name == "kind" or not at_default or _holds_version(plain):
            tree[name] = plain
    version = getattr(type(spec), "spec_version", 1)
    return tree | ({"spec_version": version} if version != 1 else {})


def _canonical_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return canonical(value)
    if isinstance(value, tuple | list):
        return [_canonical_value(v) for v in value]
    if isinstance(value, dict):
        return {k: _canonical_value(v) for k, v in value.items()}
    return value


def _holds_version(plain: Any) -> bool:
    if isinstance(plain, dict):
        return "spec_version" in plain or any(_holds_version(v) for v in plain.values())
    return isinstance(plain, list) and any(_holds_version(v) for v in plain)


def rule_of(item: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors, without its prefix.

    >>> rule_of({"type": "extra_forbidden", "msg": "Extra inputs are not permitted"})
    'there is no such option here'
    """
    if item["type"] == "extra_forbidden":
        return "there is no such option here"
    return str(item["msg"]).removeprefix("Value error, ")
