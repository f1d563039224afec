"""Specs whose behaviour comes from a class in a plugin file."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import JsonValue, ValidationError, model_validator

from frostbench.heads.file_hash import with_file_hash
from frostbench.heads.plugin_files import PluginError, file_hash, has_method, spec_classes
from frostbench.heads.spec import Spec, Tier, rule_of


class PluginSpec(Spec):
    """A spec that delegates to a class in a Python file outside the repository.

    A subclass declares the fields `file`, `name`, `sha256` and `options`, with its own titles.
    """

    tier: ClassVar[Tier] = "experimental"
    methods: ClassVar[tuple[str, ...]] = ()
    """Methods of which the plugin's class must have at least one."""

    if TYPE_CHECKING:
        file: str
        name: str
        sha256: str
        options: dict[str, JsonValue]

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    def inner(self) -> Spec:
        """Return an instance of the plugin's class, with its options checked by the class.

        Raises:
            PluginError: the file was not run or has no such class, or the class lacks a required method or rejects an
                option.
        """
        sha256 = self.sha256 or file_hash(self.file)
        return _instance(self.file, sha256, self.name, json.dumps(self.options, sort_keys=True), self.methods)

    @property
    def stacks(self) -> bool:
        """Whether heads with this spec may be trained as one stack; a class opts out with `stacks = False`."""
        inner_type = type(self.inner())
        stacks: Any = getattr(inner_type, "stacks", True)
        if not isinstance(stacks, bool):
            raise PluginError(
                f"stacks must be True or False, but {inner_type.__name__} has {stacks!r}. Write "
                "`stacks: ClassVar[bool] = False` or leave it out."
            )
        return stacks


@lru_cache(maxsize=1024)
def _instance(file: str, sha256: str, name: str, options: str, methods: tuple[str, ...]) -> Spec:
    classes = spec_classes(file, sha256)
    if name not in classes:
        raise PluginError(
            f"A plugin's class must be a frostbench.heads.spec.Spec defined in its file. {file} defines "
            f"{sorted(classes)}, got {name!r}. Choose one of these."
        )
    if not any(has_method(classes[name], method) for method in methods):
        raise PluginError(
            f"The class of a plugin must have the method {' or '.join(methods)} here, but {name} of {file} does not. "
            "Add it."
        )
    try:
        return classes[name].model_validate(json.loads(options))
    except ValidationError as error:
        raise PluginError(_rejected_options(error.errors(include_url=False), classes[name], file)) from error


def _rejected_options(errors: list[Any], spec_type: type[Spec], file: str) -> str:
    paths = [".".join(map(str, error["loc"])) or "options" for error in errors]
    lines = [f"{path}: {rule_of(e)}, got {e.get('input')!r}." for path, e in zip(paths, errors, strict=True)]
    known = [name for name in spec_type.model_fields if name != "kind"]
    return "\n".join([*lines, f"The options of {spec_type.__name__} in {file} are {known}."])
