"""The rows of a form, derived from any spec type without spec-specific code.

A row is keyed by the option's path with the kinds it exists for, such as `head.body<mlp>.hidden`, so that the values of
one kind are kept while another kind is selected.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin

import annotated_types as bounds_of
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from frostbench.benchmarks.settings.options import Option, options
from frostbench.heads.titles import label_of
from frostbench.heads.walk import kind_of, plain_path, variants

Control = Literal["choice", "flag", "number", "names", "numbers", "line", "text"]
EXPERIMENTAL = "experimental"


@dataclass(frozen=True)
class Row:
    """One option as a row of a form.

    Attributes:
        key: the option's path with the kinds it exists for.
        path: the path as written in YAML and after `--set`.
        label: the option's title, made distinct from every other row that can be visible at the same time.
        sentence: what the option does.
        control: type of control: one of several choices, checkbox, number, list of names, comma-separated numbers,
            line of text, or YAML text.
        needs: for each part of the path with several kinds, the key of the row that selects one, and the kind needed.
        choices: the values of a choice.
        experimental: the choices that are experimental.
        whole: whether a number is an integer.
        optional: whether a number may be left empty.
        empty: what an empty number field means, in a word or two.
        low: lower bound, or None.
        high: upper bound, or None.
        default: the control's initial value.
        tier: "experimental" if a spec on the path is, otherwise "core".
        is_file: whether the value is the path of a file that the spec reads.
    """

    key: str
    path: str
    label: str
    sentence: str
    control: Control
    needs: tuple[tuple[str, str], ...] = ()
    choices: tuple[str, ...] = ()
    experimental: tuple[str, ...] = ()
    whole: bool = False
    optional: bool = False
    empty: str = ""
    low: float | None = None
    high: float | None = None
    default: Any = None
    tier: str = "core"
    is_file: bool = False

    def is_active(self, values: Mapping[str, Any]) -> bool:
        """Whether the option exists for the selected kinds."""
        return all(values.get(key) == kind for key, kind in self.needs)


def rows_of(spec_type: type[BaseModel], leave_out: Sequence[str] = ()) -> tuple[Row, ...]:
    """Return a row for every option of a spec type except the paths in `leave_out`.

    >>> from frostbench.heads.head import HeadSpec
    >>> [row.label for row in rows_of(HeadSpec)][:3]
    ['Centre each channel', 'Scale each channel to unit variance', 'Body']
    """
    kept = [option for option in options(spec_type) if plain_path(option.path) not in leave_out]
    experimental = tuple(_spec_prefix(option) for option in kept if getattr(option.owner, "tier", "") == EXPERIMENTAL)
    rows = [_row(option, experimental) for option in kept]
    return tuple(_with_distinct_label(row, rows, spec_type) for row in rows)


def other_values(row: Row, value: Any) -> list[Any]:
    """Return other values that the row's bounds allow: all other choices, or up to two numbers; empty if unknown."""
    if row.control == "choice":
        return [choice for choice in row.choices if choice != value]
    if row.control == "flag":
        return [not value]
    if row.control != "number" or (value is None and not row.optional):
        return []
    low = row.low if row.low is not None else (value or 0) - 1
    high = row.high if row.high is not None else (value or 0) + 1
    value = low if value is None else value
    step = 1 if row.whole else (high - low) / 8
    near = [value - step, value + step, (low + high) / 2]
    inside = [round(v) if row.whole else v for v in near if low < v < high or (row.whole and low <= v <= high)]
    return [v for v in dict.fromkeys(inside) if v != value][:2]


def control_value(control: str, value: Any) -> Any:
    """Convert an option's value to the value of its control."""
    if control == "names":
        return list(value)
    if control == "choice":
        return str(value)
    if control == "numbers":
        return ", ".join(map(str, value))
    if control != "text":
        return value
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=math.inf).removesuffix("...\n").strip()


def _spec_prefix(option: Option) -> str:
    """Return the path prefix shared by all options of the spec that owns this one."""
    path = option.path.removesuffix(".kind") if _is_kind(option) else option.path
    return f"{path.rpartition('.')[0]}."


def _is_kind(option: Option) -> bool:
    return option.path.endswith(".kind")


def _row(option: Option, experimental: tuple[str, ...]) -> Row:
    """Build the row of an option, given the path prefixes of experimental specs."""
    field = option.field
    is_kind = _is_kind(option)
    control, choices = _control(field)
    if is_kind:
        control, choices = "choice", tuple(option.bound.split(", "))
    low, high = _limits(field)
    path = plain_path(option.path)
    return Row(
        key=option.path,
        path=path,
        needs=tuple(_needs(option.path)),
        label=option.title,
        sentence=" ".join(option.sentence.split()),
        control=control,
        choices=choices,
        experimental=_experimental_kinds(field) if is_kind else (),
        whole=_number(field.annotation) is int,
        optional=control == "number" and type(None) in get_args(field.annotation),
        empty=_empty(field),
        low=low,
        high=high,
        default=option.default.kind if is_kind else control_value(control, option.default),
        tier=EXPERIMENTAL if option.path.startswith(experimental) else "core",
        is_file=isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("is_file") is True,
    )


def _needs(tagged: str) -> list[tuple[str, str]]:
    """Return the kinds that a path needs: `a<x>.b<y>.c` needs `a.kind` to be x and `a<x>.b.kind` to be y."""
    return [(f"{tagged[: match.start()]}.kind", match[1]) for match in re.finditer("<([^>]*)>", tagged)]


def _control(field: FieldInfo) -> tuple[Control, tuple[str, ...]]:
    annotation = field.annotation
    if annotation is bool:
        return "flag", ()
    if get_origin(annotation) is Literal:
        return "choice", tuple(str(choice) for choice in get_args(annotation))
    if _number(annotation):
        return "number", ()
    if annotation is str:
        return "line", ()
    is_tuple = get_origin(annotation) is tuple
    item = get_args(annotation)[0] if is_tuple else None
    kind = get_args(item)[0] if get_args(item) else item
    return ("names" if kind is str else "numbers" if kind in (int, float) else "text"), ()


def _number(annotation: Any) -> type | None:
    """Return int or float for an annotation that is one of them, optional or not; otherwise None."""
    types = [part for part in get_args(annotation) or (annotation,) if part is not type(None)]
    return types[0] if len(types) == 1 and types[0] in (int, float) and get_origin(annotation) is not tuple else None


def _experimental_kinds(field: FieldInfo) -> tuple[str, ...]:
    kinds = (v for v in variants(field.annotation) if getattr(v, "tier", "") == EXPERIMENTAL)
    return tuple(str(kind_of(kind)) for kind in kinds)


def _empty(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra.get("empty", "")) if isinstance(extra, dict) else ""


def _limits(field: FieldInfo) -> tuple[float | None, float | None]:
    low = high = None
    for m in field.metadata:
        if isinstance(m, bounds_of.Ge):
            low = float(m.ge)  # type: ignore[arg-type]
        elif isinstance(m, bounds_of.Gt):
            low = float(m.gt)  # type: ignore[arg-type]
        elif isinstance(m, bounds_of.Le):
            high = float(m.le)  # type: ignore[arg-type]
        elif isinstance(m, bounds_of.Lt):
            high = float(m.lt)  # type: ignore[arg-type]
    return low, high


def _with_distinct_label(row: Row, rows: Sequence[Row], spec_type: type[BaseModel]) -> Row:
    """Prefix a row's label with that of a part of its path if a row that can be visible with it has the same label.

    Of several rows with the same label, one that needs fewer kinds than all others keeps its label.
    """
    others = [o for o in rows if o.label == row.label and o.key != row.key and _can_coexist(row, o)]
    if not others or all(len(row.needs) < len(o.needs) for o in others):
        return row
    return replace(row, label=f"{label_of(spec_type, _part(row, others))} · {row.label}")


def _can_coexist(a: Row, b: Row) -> bool:
    """Whether two rows can exist at the same time: not if they need different kinds of the same part."""
    kinds = dict(a.needs)
    return all(kinds.get(key, kind) == kind for key, kind in b.needs)


def _part(row: Row, others: Sequence[Row]) -> str:
    """Return the shortest prefix of a row's path that no other row shares."""
    parts, other_parts = row.key.split("."), [other.key.split(".") for other in others]
    count = next(n for n in range(1, len(parts) + 1) if all(parts[:n] != other[:n] for other in other_parts))
    return ".".join(parts[:count])
