"""The shared pydantic configuration of all settings models."""

from typing import Final

from pydantic import ConfigDict

SETTINGS: Final = ConfigDict(
    frozen=True,
    extra="forbid",
    use_attribute_docstrings=True,
    validate_default=True,
    allow_inf_nan=False,
    json_schema_serialization_defaults_required=True,
)
