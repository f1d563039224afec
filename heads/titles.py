"""What options are called: the titles of their fields, by dotted path."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from frostbench.heads.walk import kind_of, plain_path, variants


def title_of(name: str, field: FieldInfo) -> str:
    """The title of a field; one that has none is called by its own name in words.

    >>> title_of("block_rows", FieldInfo(annotation=int))
    'Block rows'
    """
    words = name.replace("_", " ")
    return field.title or f"{words[:1].upper()}{words[1:]}"


def label_of(spec_type: type[BaseModel], path: str, tree: Mapping[str, Any] | None = None) -> str:
    """The title of the option at a dotted path, such as `train.optim.lr`, or the path itself where there is none.

    An index or a key below an option is left out, and so is `.kind`: the title of a union is that of its choice.

    Args:
        spec_type: the spec that the path starts from.
        path: the path, in which `<kind>` after a name may say which kind is meant; else, the first that has the option.
        tree: settings whose kinds are meant, where the path names none.

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
    return _walked((spec_type,), path.split("."), tree or {}) or path


def named(spec_type: type[BaseModel], path: str) -> str:
    """An option as messages name it: by its title, with the path behind it.

    >>> from pydantic import Field
    >>> from frostbench.heads.spec import Spec
    >>> class Optim(Spec):
    ...     lr: float = Field(default=0.1, title="Learning rate")
    >>> named(Optim, "lr"), named(Optim, "rate")
    ('Learning rate (lr)', 'rate')
    """
    label, written = label_of(spec_type, path), plain_path(path)
    return written if label == path else f"{label} ({written})"


def _walked(kinds: Sequence[type[BaseModel]], parts: Sequence[str], tree: Mapping[str, Any]) -> str | None:
    """The title at the end of a path below one of several specs; None where no spec has such an option."""
    # Not by `walk`: a path leads through one branch of each union, which the settings may have to choose.
    name, _, kind = parts[0].removesuffix(">").partition("<")
    for spec_type in kinds:
        field = spec_type.model_fields.get(name)
        if field is None:
            continue
        inner, below = variants(field.annotation), tree.get(name)
        below = below if isinstance(below, Mapping) else {}
        meant = [v for v in inner if kind_of(v) == (kind or below.get("kind"))] or inner
        rest = parts[1:]
        if not rest or not inner or rest == ["kind"]:
            return title_of(name, field)
        found = _walked(meant, rest, below)
        if found is not None:
            return found
    return None
