"""Titles of options by their dotted path."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from frostbench.heads.walk import kind_of, plain_path, variants


def title_of(name: str, field: FieldInfo) -> str:
    """Return the title of a field, or its name as words if it has none.

    >>> title_of("block_rows", FieldInfo(annotation=int))
    'Block rows'
    """
    words = name.replace("_", " ")
    return field.title or f"{words[:1].upper()}{words[1:]}"


def label_of(spec_type: type[BaseModel], path: str, tree: Mapping[str, Any] | None = None) -> str:
    """Return the title of the option at a dotted path, such as `train.optim.lr`, or the path itself if it has none.

    An index or key below an option is ignored, and so is `.kind`: the choice of a kind has the title of its union.

    Args:
        spec_type: the spec that the path starts from.
        path: the path; `<kind>` after a name selects a kind, otherwise the first kind with the option is used.
        tree: settings that select kinds where the path does not.

    >>> from typing import Literal
    >>> from pydantic import Field
    >>> from frostbench.heads.spec import Spec
    >>> class Adam(Spec):
    ...     kind: Literal["adam"] = "adam"
    ...     lr: float = Field(default=0.1, title="Learning rate")
    >>> class Run(Spec):
    ...     optim: Adam = Field(default=Adam(), title="Optimiser")
    >>> [label_of(Run, path) for path in ("optim.lr", "optim.kind", "optim.speed", "other")]
    ['Learning rate', 'Optimiser', 'optim.speed', 'other']
    """
    return _title_at((spec_type,), path.split("."), tree or {}) or path


def named(spec_type: type[BaseModel], path: str) -> str:
    """Return an option as messages name it: its title, followed by the path.

    >>> from pydantic import Field
    >>> from frostbench.heads.spec import Spec
    >>> class Optim(Spec):
    ...     lr: float = Field(default=0.1, title="Learning rate")
    >>> named(Optim, "lr"), named(Optim, "rate")
    ('Learning rate (lr)', 'rate')
    """
    label, plain = label_of(spec_type, path), plain_path(path)
    return plain if label == path else f"{label} ({plain})"


def _title_at(kinds: Sequence[type[BaseModel]], parts: Sequence[str], tree: Mapping[str, Any]) -> str | None:
    """Return the title at a path below one of several specs, or None if no spec has the option."""
    # Not by `walk`: a path leads through one branch of each union, which the settings may have to choose.
    name, _, kind = parts[0].removesuffix(">").partition("<")
    for spec_type in kinds:
        field = spec_type.model_fields.get(name)
        if field is None:
            continue
        inner, below = variants(field.annotation), tree.get(name)
        below = below if isinstance(below, Mapping) else {}
        chosen = [v for v in inner if kind_of(v) == (kind or below.get("kind"))] or inner
        rest = parts[1:]
        if not rest or not inner or rest == ["kind"]:
            return title_of(name, field)
        title = _title_at(chosen, rest, below)
        if title is not None:
            return title
    return None
