"""Any spec type as rows of a form, and the form's values as a spec: nothing about a spec is written down here.

A row is keyed by the option's path with the kinds it exists for, such as `head.body<mlp>.hidden`, so that the values of
one kind wait while another is chosen.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin

import annotated_types as bounds_of
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from benchmarks.options import Option, options
from benchmarks.reading import read_yaml
from benchmarks.settings import SettingsError, Tree, merge, parse

SpecT = TypeVar("SpecT", bound=BaseModel)
Control = Literal["choice", "flag", "number", "names", "numbers", "text"]
Values = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One option as a row of a form.

    Attributes:
        key: the option's path with the kinds it exists for.
        path: the path as one writes it in YAML and after `--set`.
        label: its name in words, unique in a form.
        sentence: what it does.
        control: what a person sets it with: one of several words, a tick, a number, names, numbers with commas between
            them, or YAML text.
        needs: for each union above it, the row that chooses the kind and the kind that must be chosen.
        choices: the words of a choice.
        whole: whether a number is an integer.
        low: least number, None where there is none.
        high: greatest number, None where there is none.
        default: what the control shows at first.
        tier: core or experimental.
    """

    key: str
    path: str
    label: str
    sentence: str
    control: Control
    needs: tuple[tuple[str, str], ...] = ()
    choices: tuple[str, ...] = ()
    whole: bool = False
    low: float | None = None
    high: float | None = None
    default: Any = None
    tier: str = "core"

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

    >>> from heads.head import HeadSpec
    >>> [row.label for row in rows_of(HeadSpec)][:3]
    ['Preprocess: center', 'Preprocess: std', 'Body']
    """
    return tuple(_row(option) for option in options(spec_type) if _path(option.path) not in leave_out)


def values_of(rows: Sequence[Row], spec: BaseModel) -> Values:
    """What the controls show for a spec; rows of kinds that are not chosen keep their default."""
    values = {row.key: row.default for row in rows}
    for row in sorted(rows, key=lambda row: len(row.needs)):
        if row.is_active(values):
            values[row.key] = _shown(row.control, _at(spec, row.path))
    return values


def tree_of(rows: Sequence[Row], values: Mapping[str, Any]) -> Tree:
    """The nested settings that the controls of the chosen kinds stand for.

    Raises:
        SettingsError: the text of a control is not YAML.
    """
    tree: Tree = {}
    for row in rows:
        if row.is_active(values):
            nested: Any = _meant(row, values[row.key])
            for name in reversed(row.path.split(".")):
                nested = {name: nested}
            tree = merge(tree, nested)
    return tree


def spec_of(spec_type: type[SpecT], rows: Sequence[Row], values: Mapping[str, Any], fixed: Tree | None = None) -> SpecT:
    """The spec that the controls stand for, with settings on top that the form does not show.

    Raises:
        SettingsError: a value is not allowed; the message names every such option.
    """
    return parse(spec_type, tree_of(rows, values) | (fixed or {}))


def other_values(row: Row, value: Any) -> list[Any]:
    """One or two other values of a row that its bounds allow, or none where nothing is known about them."""
    if row.control == "choice":
        return [choice for choice in row.choices if choice != value]
    if row.control == "flag":
        return [not value]
    if row.control != "number" or not isinstance(value, int | float):
        return []
    low = row.low if row.low is not None else value - 1
    high = row.high if row.high is not None else value + 1
    step = 1 if row.whole else (high - low) / 8
    near = [value - step, value + step, (low + high) / 2]
    inside = [round(v) if row.whole else v for v in near if low < v < high or (row.whole and low <= v <= high)]
    return [v for v in dict.fromkeys(inside) if v != value][:2]


def _path(tagged: str) -> str:
    return re.sub("<[^>]*>", "", tagged)


def _row(option: Option) -> Row:
    field = option.field
    is_kind = option.path.endswith(".kind")
    control, choices = ("choice", tuple(option.bound.split(", "))) if is_kind else _control(field)
    low, high = _limits(field)
    path = _path(option.path)
    return Row(
        key=option.path,
        path=path,
        needs=tuple(_needs(option.path)),
        label=_label(path, option.path),
        sentence=" ".join(option.sentence.split()),
        control=control,
        choices=choices,
        whole=field.annotation is int,
        low=low,
        high=high,
        default=option.default.kind if is_kind else _shown(control, option.default),
        tier=getattr(option.owner, "tier", "core"),
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
    if annotation in (int, float):
        return "number", ()
    is_tuple = get_origin(annotation) is tuple
    item = get_args(annotation)[0] if is_tuple else None
    kind = get_args(item)[0] if get_args(item) else item
    return ("names" if kind is str else "numbers" if kind in (int, float) else "text"), ()


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


def _label(path: str, tagged: str) -> str:
    """The last two names of a path in words, with the kind where several kinds have the option."""
    parts = [part for part in path.split(".") if part != "kind"]
    kinds = re.findall("<([^>]*)>", tagged)
    words = [part.replace("_", " ") for part in parts[-2:]]
    name = words[-1] if len(parts) < 2 or path.endswith(".kind") else f"{words[0]}: {words[1]}"
    if kinds and not path.endswith(".kind"):
        name = f"{name} ({kinds[-1].replace('_', ' ')})"
    return name[:1].upper() + name[1:]


def _at(spec: BaseModel, path: str) -> Any:
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _shown(control: str, value: Any) -> Any:
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


def _meant(row: Row, value: Any) -> Any:
    """A control's value as settings."""
    if row.control not in ("text", "numbers"):
        return value
    text = str(value if value is not None else "").strip()
    try:
        return read_yaml(f"[{text.strip('[]')}]" if row.control == "numbers" else text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{row.path}: a value is written as YAML, however: {text!r} came ({error}).") from error
