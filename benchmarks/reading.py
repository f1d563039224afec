"""Reading YAML as people mean it."""

import re
from collections.abc import Hashable
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but plain 1e-3 is a number, and a key may stand only once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {', '.join(twice)} stands twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


# PyYAML follows YAML 1.1, in which a number with an exponent needs a dot; YAML 1.2 has dropped that.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(text: str) -> Any:
    """The value of a YAML text.

    >>> read_yaml("[1e-3, '1e-3', 2.5E4, 07a]")
    [0.001, '1e-3', 25000.0, '07a']

    Raises:
        yaml.YAMLError: the text is not YAML, or a key stands twice.
    """
    return yaml.load(text, Loader=_Loader)
