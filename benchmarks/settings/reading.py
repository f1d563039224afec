"""A YAML reader that accepts 1e-3 as a number and rejects duplicate keys and oversized values."""

import re
from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """PyYAML's YAML 1.1 loader, except that 1e-3 is a number and duplicate keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        try:
            twice = sorted(str(key) for key, count in Counter(keys).items() if count > 1)
        except TypeError:
            # PyYAML itself reports keys that are lists or mappings.
            twice = []
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {', '.join(twice)}", node.start_mark)
        return super().construct_mapping(node, deep)


# PyYAML follows YAML 1.1, in which a number with an exponent needs a dot; YAML 1.2 has dropped that.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


MOST_NODES = 200_000
"""Maximum number of values in a text, counting each repetition by an alias."""
DEEPEST = 100


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    >>> read_yaml("[1e-3, '1e-3', 2.5E4, 07a]")
    [0.001, '1e-3', 25000.0, '07a']

    Raises:
        yaml.YAMLError: the text is not YAML, has a duplicate key, an invalid number or date, is nested too deeply, or
            has too many values once its aliases are expanded.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    except RecursionError as error:
        raise yaml.YAMLError(f"values may be nested at most {DEEPEST} deep") from error
    except (ValueError, OverflowError) as error:
        # A date such as 2024-13-45, or a number with more digits than Python converts.
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _check_size(node: yaml.Node) -> None:
    """Reject texts that would take much time and memory once aliases are expanded."""
    if _count(node, {}, ()) > MOST_NODES:
        raise yaml.YAMLError(f"a text may hold at most {MOST_NODES} values, counting each repetition by an alias")


def _count(node: yaml.Node, known: dict[int, tuple[int, int]], above: tuple[int, ...]) -> int:
    """Count a node and the values below it; `known` holds (values, depth) of the nodes visited so far."""
    if id(node) in above or len(above) + known.get(id(node), (0, 0))[1] > DEEPEST:
        raise yaml.YAMLError(f"values may be nested at most {DEEPEST} deep and may not contain themselves")
    if id(node) not in known:
        inner = _children(node)
        count = 1 + sum(_count(child, known, (*above, id(node))) for child in inner)
        known[id(node)] = count, 1 + max((known[id(child)][1] for child in inner), default=0)
    return known[id(node)][0]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
