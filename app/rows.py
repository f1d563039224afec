"""Any spec type as rows of a form: nothing about a spec is written down here.

A row is keyed by the option's path with the kinds it exists for, such as `head.body<mlp>.hidden`, so that the values of
one kind wait while another is chosen.
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
RARE = "experimental"


@dataclass(frozen=True)
class Row:
    """One option as a row of a form.

    Attributes:
        key: the option's path with the kinds it exists for.
        path: the path as one writes it in YAML and after `--set`.
        label: its title, told apart from that of any other row that can be seen beside it.
        sentence: what it does.
        control: what a person sets it with: one of several words, a tick, a number, names, numbers with commas between
            them, a line as it stands, or YAML text.
        needs: for each union above it, the row that chooses the kind and the kind that must be chosen.
        choices: the words of a choice.
        rarer: those of them that are experimental.
        whole: whether a number is an integer.
        optional: whether a number may be left empty.
        empty: what that means, in a word or two.
        low: least number, None where there is none.
        high: greatest number, None where there is none.
        default: what the control shows at first.
        tier: experimental where a spec on its path is, else core.
        is_file: whether its value is the path of a file that the spec reads.
    """

    key: str
    path: str
    label: str
    sentence: str
    control: Control
    needs: tuple[tuple[str, str], ...] = ()
    choices: tuple[str, ...] = ()
    rarer: tuple[str, ...] = ()
    whole: bool = False
    optional: bool = False
    empty: str = ""
    low: float | None = None
    high: float | None = None
    default: Any = None
    tier: str = "core"
    is_file: bool = False

    @property
    def group(self) -> str:
        """The parts of the path that say where it belongs: the first, and the second where there are three."""
        parts = self.path.split(".")
        return ".".join(parts[:2]) if len(parts) > 2 else parts[0]

    def is_active(self, values: Mapping[str, Any]) -> bool:
        """Whether the option exists under the kinds that are chosen."""
        return all(values.get(key) == kind for key, kind in self.needs)


def rows_of(spec_type: type[BaseModel], leave_out: Sequence[str] = ()) -> tuple[Row, ...]:
    """Every option below a spec type as a row; leave_out names paths that the form does not show.

    >>> from frostbench.heads.head import HeadSpec
    >>> [row.label for row in rows_of(HeadSpec)][:3]
    ['Centre each channel', 'Scale each channel to unit variance', 'Body']
    """
    found = [option for option in options(spec_type) if plain_path(option.path) not in leave_out]
    rare = tuple(_above(option) for option in found if getattr(option.owner, "tier", "") == RARE)
    rows = [_row(option, rare) for option in found]
    return tuple(_told_apart(row, rows, spec_type) for row in rows)


def other_values(row: Row, value: Any) -> list[Any]:
    """One or two other values of a row that its bounds allow, or none where nothing is known about them."""
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


def shown(control: str, value: Any) -> Any:
    """A value as its control holds it."""
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


def _above(option: Option) -> str:
    """The start of the paths of all options of the spec that has this one."""
    own = option.path.removesuffix(".kind") if _is_kind(option) else option.path
    return f"{own.rpartition('.')[0]}."


def _is_kind(option: Option) -> bool:
    return option.path.endswith(".kind")


def _row(option: Option, rare: tuple[str, ...]) -> Row:
    """The row of an option; rare holds the starts of paths below experimental specs."""
    field = option.field
    is_kind = _is_kind(option)
    control, choices = ("choice", tuple(option.bound.split(", "))) if is_kind else _control(field)
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
        rarer=_rarer(field) if is_kind else (),
        whole=_number(field.annotation) is int,
        optional=control == "number" and type(None) in get_args(field.annotation),
        empty=_empty(field),
        low=low,
        high=high,
        default=option.default.kind if is_kind else shown(control, option.default),
        tier=RARE if option.path.startswith(rare) else "core",
        is_file=isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("is_file") is True,
    )


def _needs(tagged: str) -> list[tuple[str, str]]:
    """`a<x>.b<y>.c` needs `a.kind` to be x and `a<x>.b.kind` to be y."""
    return [(f"{tagged[: found.start()]}.kind", found[1]) for found in re.finditer("<([^>]*)>", tagged)]


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
    """The int or float of an annotation that is one, or one of them or None."""
    found = [part for part in get_args(annotation) or (annotation,) if part is not type(None)]
    return found[0] if len(found) == 1 and found[0] in (int, float) and get_origin(annotation) is not tuple else None


def _rarer(field: FieldInfo) -> tuple[str, ...]:
    """The kinds of a union that are experimental."""
    return tuple(str(kind_of(v)) for v in variants(field.annotation) if getattr(v, "tier", "") == RARE)


def _empty(field: FieldInfo) -> str:
    """What it means to leave a number out, as its field says."""
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


def _told_apart(row: Row, rows: Sequence[Row], spec_type: type[BaseModel]) -> Row:
    """A row with the part it belongs to before its label, where that of a row which can be seen beside it is the same.

    Of those with one label, the one under the fewest kinds keeps it.
    """
    others = [o for o in rows if o.label == row.label and o.key != row.key and _seen_together(row, o)]
    if not others or all(len(row.needs) < len(o.needs) for o in others):
        return row
    return replace(row, label=f"{label_of(spec_type, _part(row, others))} · {row.label}")


def _seen_together(one: Row, other: Row) -> bool:
    """Whether two rows can exist at once: they need no two kinds of the same option."""
    kinds = dict(one.needs)
    return all(kinds.get(key, kind) == kind for key, kind in other.needs)


def _part(row: Row, others: Sequence[Row]) -> str:
    """The start of a row's path, as far as it is needed to tell it from those of the others."""
    parts, theirs = row.key.split("."), [other.key.split(".") for other in others]
    count = next(n for n in range(1, len(parts) + 1) if all(parts[:n] != other[:n] for other in theirs))
    return ".".join(parts[:count])
