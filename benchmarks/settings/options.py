"""Every option below a spec type, and docs/options.md made of them."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds_of
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from frostbench.heads.titles import title_of
from frostbench.heads.walk import walk


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        path: dotted path; `<kind>` after a name says for which kind the option exists.
        field: the pydantic field.
        owner: the spec class that defines it.
        bound: its choices or bounds, in words.
    """

    path: str
    field: FieldInfo
    owner: type[BaseModel]
    bound: str

    @property
    def default(self) -> Any:
        """The default value, None where there is none."""
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)

    @property
    def title(self) -> str:
        """What the option is called; the choice of a kind is called as its union is."""
        return title_of(self.path.removesuffix(".kind").rpartition(".")[2], self.field)

    @property
    def sentence(self) -> str:
        """What the option does."""
        return (self.field.description or "").strip()


def options(spec_type: type[BaseModel]) -> Iterator[Option]:
    """Every option below a spec type, in the order of definition.

    >>> from frostbench.training.run import RunSpec
    >>> [o.path for o in options(RunSpec) if o.path.startswith("head.body")][:2]
    ['head.body.kind', 'head.body<mlp>.hidden']
    """
    for node in walk(spec_type):
        if len(node.branches) > 1:
            yield Option(f"{node.path}.kind", node.field, node.owner, ", ".join(node.kinds))
        elif not node.branches and (not node.is_kind or len(get_args(node.field.annotation)) > 1):
            yield Option(node.path, node.field, node.owner, bound(node.field))


def bound(field: FieldInfo) -> str:
    """The choices or bounds of a leaf field, in words; empty where it has none."""
    annotation = field.annotation
    if annotation is bool:
        return "true, false"
    if get_origin(annotation) is Literal:
        return ", ".join(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [a for a in get_args(annotation) if a is not type(None)]
        words = bound(FieldInfo(annotation=inner[0])) or _limits(list(field.metadata))
        return f"{words}, or null" if type(None) in get_args(annotation) else words
    own = _limits(list(field.metadata))
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        each = _limits(_flat(get_args(item)[1:])) if get_origin(item) is Annotated else ""
        return ", ".join(part for part in (f"{own} of them" if own else "", f"each {each}" if each else "") if part)
    return own


def _flat(metadata: Any) -> list[Any]:
    """Metadata with pydantic's Field(...) unfolded into the bounds it stands for."""
    return [m for item in metadata for m in (item.metadata if isinstance(item, FieldInfo) else [item])]


def _limits(metadata: list[Any]) -> str:
    said = []
    for m in metadata:
        if isinstance(m, bounds_of.Ge):
            said.append(f">= {m.ge}")
        elif isinstance(m, bounds_of.Gt):
            said.append(f"> {m.gt}")
        elif isinstance(m, bounds_of.Le):
            said.append(f"<= {m.le}")
        elif isinstance(m, bounds_of.Lt):
            said.append(f"< {m.lt}")
        elif isinstance(m, bounds_of.MinLen):
            said.append(f"at least {m.min_length}")
        elif isinstance(m, bounds_of.MaxLen):
            said.append(f"at most {m.max_length}")
    return ", ".join(said)


def shown(value: Any) -> str:
    """A value as it is written in YAML."""
    if isinstance(value, BaseModel):
        return str(getattr(value, "kind", ""))
    if isinstance(value, tuple | list):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def options_markdown(spec_types: dict[str, type[BaseModel]]) -> str:
    """docs/options.md: one table for each named spec type."""
    lines = ["# Options", "", "Made by `make docs` from the titles and docstrings of the fields; do not edit.", ""]
    lines += [
        "Set one with `--set path=value` or in YAML. A `<kind>` in a path says for which kind the option exists and is",
        "not written: `train.loss.class_weight<effective>.beta` is set as `train.loss.class_weight.beta`.",
        "",
    ]
    for heading, spec_type in spec_types.items():
        lines += [f"## {heading}", "", "| title | option | default | allowed | what it does |", "|---|---|---|---|---|"]
        lines += [
            f"| {o.title} | `{o.path}` | {shown(o.default)} | {o.bound} | {' '.join(o.sentence.split())} |"
            for o in options(spec_type)
        ]
        lines.append("")
    return "\n".join(lines)
