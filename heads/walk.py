"""The walk over all fields of a tree of specs, shared by the code that lists, names or reads options."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class Node(NamedTuple):
    """One field in a tree of specs.

    Attributes:
        path: dotted path from the root; `<kind>` after a name gives the branch of a union.
        field: the pydantic field.
        owner: the spec class that defines the field.
        branches: the spec classes that the field may hold; empty for a plain value.
        value: the field's value, or None if a class was walked.
    """

    path: str
    field: FieldInfo
    owner: type[BaseModel]
    branches: tuple[type[BaseModel], ...]
    value: Any

    @property
    def is_kind(self) -> bool:
        """Whether the field names the kind of its spec."""
        return self.path.rpartition(".")[2] == "kind"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the branches."""
        return tuple(kind for kind in map(kind_of, self.branches) if kind is not None)


def walk(spec: BaseModel | type[BaseModel], prefix: str = "") -> Iterator[Node]:
    """Yield every field below a spec, depth first, in the order of definition.

    A class is walked through every branch of its unions; an instance through the specs it holds, with their values.

    >>> from frostbench.heads.head import HeadSpec
    >>> [node.path for node in walk(HeadSpec)][4:7]
    ['body', 'body<identity>.kind', 'body<mlp>.kind']
    """
    is_class = isinstance(spec, type)
    owner = spec if isinstance(spec, type) else type(spec)
    for name, field, branches in _fields(owner):
        value = None if is_class else getattr(spec, name)
        yield Node(f"{prefix}{name}", field, owner, branches, value)
        for branch in branches if is_class else [value] if isinstance(value, BaseModel) else []:
            tag = f"<{kind_of(branch)}>" if len(branches) > 1 else ""
            yield from walk(branch, f"{prefix}{name}{tag}.")


@cache
def _fields(owner: type[BaseModel]) -> tuple[tuple[str, FieldInfo, tuple[type[BaseModel], ...]], ...]:
    return tuple((name, field, variants(field.annotation)) for name, field in owner.model_fields.items())


def variants(annotation: Any) -> tuple[type[BaseModel], ...]:
    """Return the spec classes in an annotation: a spec, a union of specs, or a tuple of those."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    args = get_args(annotation)
    if get_origin(annotation) is Annotated:
        args = args[:1]
    return () if get_origin(annotation) is Literal else tuple(v for a in args for v in variants(a))


def kind_of(spec: BaseModel | type[BaseModel]) -> str | None:
    """Return the `kind` of a spec or of its class, or None if it has none."""
    field = (spec if isinstance(spec, type) else type(spec)).model_fields.get("kind")
    return None if field is None else str(field.default)


def plain_path(path: str) -> str:
    """Return a path without its `<kind>` tags, as it is written in YAML and after `--set`.

    >>> plain_path("head.body<mlp>.hidden")
    'head.body.hidden'
    """
    return re.sub("<[^>]*>", "", path)
