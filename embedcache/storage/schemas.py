"""Schemas of the JSON files of a cache, with the keys that readers need."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator


class Strict(BaseModel):
    """Base model that converts no types."""

    model_config = ConfigDict(strict=True)


class ColumnEntry(Strict):
    """One column of cache.json."""

    recipe: dict[str, Any]
    recipe_hash: str
    dim: int = Field(ge=1)
    tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _fits_a_cell(self) -> "ColumnEntry":
        # Parquet stores the size of a fixed-size value in 32 bits.
        number_bytes = 4 if self.recipe.get("storage") == "float32" else 2
        if number_bytes * self.dim * (self.tokens or 1) >= 2**31:
            raise ValueError("a row of a column must have less than 2 GiB")
        return self


class CanaryEntry(Strict):
    """Canary of cache.json."""

    vectors: dict[str, list[float]] = Field(min_length=1)


class CacheFile(Strict):
    """cache.json."""

    format_version: int
    source: dict[str, Any] | None = None
    class_names: list[str]
    columns: dict[str, ColumnEntry] = Field(min_length=1)
    shard_rows: int = Field(ge=1)
    shard_sizes: list[Annotated[int, Field(ge=0)]] | None = None
    canary: CanaryEntry | None = None


class ShardEntry(Strict):
    """One shard of manifest.json."""

    name: str
    rows: int = Field(ge=0)
    bad: int = Field(ge=0)
    sha256: str


class ManifestFile(Strict):
    """manifest.json."""

    n_listed: int = Field(ge=0)
    n_ok: int = Field(ge=0)
    n_bad: int = Field(ge=0)
    shards: list[ShardEntry]
    items_sha256: str
    content_hash: str
    cache_sha256: str | None = None
    views_sha256: str | None = None


class QuarantineEntry(Strict):
    """One entry of a shard's .bad.json."""

    id: str
    path: str | None
    reason: str


QUARANTINE = TypeAdapter(list[QuarantineEntry])
