"""Reading YAML as people mean it."""

import re
from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but plain 1e-3 is a number, and a key may stand only once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        try:
            twice = sorted(str(key) for key, count in Counter(keys).items() if count > 1)
        except TypeError:
            # Of a key that is a list or a mapping PyYAML itself says that it cannot be one.
            twice = []
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {', '.join(twice)} stands twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


# PyYAML follows YAML 1.1, in which a number with an exponent needs a dot; YAML 1.2 has dropped that.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


MOST_NODES = 200_000
"""Values that a text may hold, those that an alias repeats counted each time: its size says nothing of that."""
DEEPEST = 100


def read_yaml(text: str) -> Any:
    """The value of a YAML text.

    >>> read_yaml("[1e-3, '1e-3', 2.5E4, 07a]")
    [0.001, '1e-3', 25000.0, '07a']

    Raises:
        yaml.YAMLError: the text is not YAML, a key stands twice, a number or date has no value, or it is nested too
            deeply or, with its aliases written out, too long.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    except RecursionError as error:
        raise yaml.YAMLError(f"values are nested {DEEPEST} deep at most") from error
    except (ValueError, OverflowError) as error:
        # A date such as 2024-13-45, or a number of more digits than Python converts.
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _check_size(node: yaml.Node) -> None:
    """Refuse what would take much time and memory once aliases are followed.

    Raises:
        yaml.YAMLError: values are nested too deeply, contain themselves, or are too many.
    """
    sizes: dict[int, tuple[int, int]] = {}
    if _measured(node, sizes, ()) > MOST_NODES:
        raise yaml.YAMLError(f"a text holds {MOST_NODES} values at most, with those that aliases repeat")


def _measured(node: yaml.Node, known: dict[int, tuple[int, int]], above: tuple[int, ...]) -> int:
    """How many values a node holds; each node is counted once, however often it is repeated."""
    if id(node) in above or len(above) + known.get(id(node), (0, 0))[1] > DEEPEST:
        raise yaml.YAMLError(f"values are nested {DEEPEST} deep at most, and none contains itself")
    if id(node) not in known:
        inner = _children(node)
        count = 1 + sum(_measured(one, known, (*above, id(node))) for one in inner)
        known[id(node)] = count, 1 + max((known[id(one)][1] for one in inner), default=0)
    return known[id(node)][0]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
