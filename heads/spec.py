"""Specs: the one place where every choice of the workbench is written down."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator
from pydantic.fields import FieldInfo

from frostbench.heads.walk import plain_path, walk

Tier = Literal["core", "experimental"]
SpecT = TypeVar("SpecT", bound="Spec")
SWEPT: dict[str, JsonValue] = {"swept": True}
"""Marks a number that may differ between heads trained together in one stack (as json_schema_extra of its field)."""
FILE: dict[str, JsonValue] = {"is_file": True}
"""Marks the path of a file that a spec reads (as json_schema_extra of its field): the page takes none from anywhere."""


def empty(words: str) -> dict[str, JsonValue]:
    """Says, as json_schema_extra of a field that may be None, what leaving it empty means; a form shows it there."""
    return {"empty": words}


class Spec(BaseModel):
    """One immutable choice. Its fields are the YAML keys, the controls and the rows of docs/options.md.

    Raises:
        pydantic.ValidationError: a field is unknown, out of its bounds or not one of its choices.
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
    """Raised when a default or the numerics behind this spec change, so that old runs keep their own key."""
    tier: ClassVar[Tier] = "core"
    """Core methods have a result on real data in docs/results; experimental ones are tested and named so."""

    @model_validator(mode="before")
    @classmethod
    def _a_boolean_is_no_number(cls, tree: Any) -> Any:
        for name, field in cls.model_fields.items():
            if isinstance(tree, dict) and isinstance(tree.get(name), bool) and field.annotation in (int, float):
                raise ValueError(f"{name} must be a number, and true and false are none")
        return tree


def numbers(spec: Spec) -> dict[str, float]:
    """The swept numbers of a spec and of the specs below it, by dotted path; those that are None are left out.

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
    """Copy of a spec with other values at dotted paths, which are not checked: they may be tensors."""
    own = {path: value for path, value in values.items() if "." not in path}
    below: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, dot, rest = path.partition(".")
        if dot:
            below.setdefault(name, {})[rest] = value
    return spec.model_copy(update=own | {name: with_numbers(getattr(spec, name), v) for name, v in below.items()})


def skeleton(spec: Spec) -> str:
    """What specs have in common whose heads can be trained as one stack: all but their swept numbers.

    A number at 0 stays, for there the step leaves its part out.
    """
    swept = {path: "swept" for path, number in numbers(spec).items() if number != 0}
    # Without warnings: pydantic has one for a word in a number's place.
    return with_numbers(spec, swept).model_dump_json(warnings=False)


def _is_swept(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and extra.get("swept") is True


def canonical(spec: BaseModel) -> dict[str, Any]:
    """The tree that names a spec: `kind`, a raised `spec_version`, and the fields that differ from their default.

    A field at its default is left out, so a new option renames no run. A nested spec at its default is left out
    too, unless its version was raised, for then its default means something else than it did.

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
    # Not by `walk`: the result is a nested tree, which also enters lists and dicts.
    tree: dict[str, Any] = {}
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        shown = _canonical_value(value)
        at_default = not field.is_required() and value == field.get_default(call_default_factory=True)
        if name == "kind" or not at_default or _holds_version(shown):
            tree[name] = shown
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


def _holds_version(shown: Any) -> bool:
    if isinstance(shown, dict):
        return "spec_version" in shown or any(_holds_version(v) for v in shown.values())
    return isinstance(shown, list) and any(_holds_version(v) for v in shown)


def rule_of(item: Mapping[str, Any]) -> str:
    """The rule that one of pydantic's errors is about, in words that fit before "however".

    >>> rule_of({"type": "extra_forbidden", "msg": "Extra inputs are not permitted"})
    'there is no such option here'
    """
    if item["type"] == "extra_forbidden":
        return "there is no such option here"
    return str(item["msg"]).removeprefix("Value error, ")
