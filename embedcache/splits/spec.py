"""SplitSpec: how the rows of a table are shared out."""

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from frostbench.embedcache.config import SETTINGS

CUT = ("select", "calibrate")
"""Roles that cross-validation has no rows for."""


class SplitSpec(BaseModel):
    """How the rows of a table are shared out; all shares are of all rows, and groups stay whole.

    With folds (or the rule leave_one_group_out) every row that is not kept for the test both trains and is held out
    once in each repeat. Then there are no shares to select and calibrate, and their defaults count as 0.

    >>> SplitSpec(folds=5).shares
    {'test': 0.2, 'select': 0.0, 'calibrate': 0.0}

    Raises:
        pydantic.ValidationError: a field is out of its bounds, a share is more than half of what is left for it, or
            options of cross-validation do not go together.
    """

    model_config = SETTINGS
    spec_version: ClassVar[int] = 1

    kind: Literal["split"] = "split"
    seed: int = Field(42, ge=0, le=2**32 - 3, title="Split seed")
    """Seed of the test cut; selection and calibration, or the repeats of cross-validation, use the next numbers."""
    test: float = Field(0.2, ge=0, le=0.5, title="Test share")
    """Share of rows kept for the final test; 0 leaves that role empty."""
    select: float = Field(0.15, ge=0, le=0.5, title="Selection share")
    """Share of rows on which settings and epochs are chosen; 0 leaves that role empty."""
    calibrate: float = Field(0.1, ge=0, le=0.5, title="Calibration share")
    """Share of rows on which temperatures are fitted; 0 leaves that role empty."""
    source: Literal["grouped_stratified", "given", "time"] = Field(
        default="grouped_stratified", title="Source of the test rows"
    )
    """Whether test rows are drawn by group and class, are those that the listing names in split, or are the newest."""
    roles_from: str = Field(default="", max_length=1000, json_schema_extra={"is_file": True}, title="File of roles")
    """CSV or Parquet file with the columns id and role, which says which rows train, select, calibrate and test."""
    unlisted: Literal["none", "train", "select", "calibrate", "test"] = Field(
        default="none", title="Role of unlisted rows"
    )
    """Role of the rows that the file of roles does not name; with none, each row must be named."""
    duplicates: float | None = Field(
        None, ge=0.5, le=1, json_schema_extra={"empty": "ignored"}, title="Near-duplicates: cosine threshold"
    )
    """Cosine from which images are near-copies that must stay on one side (0.98 is a good start); none ignores them."""
    folds: int = Field(0, ge=0, le=50, title="Cross-validation: folds")
    """Folds of cross-validation, which then stands in for select and calibrate; 0 and 1 cut those roles instead."""
    repeats: int = Field(1, ge=1, le=100, title="Cross-validation: repeats")
    """How often the folds are cut anew; a run is judged on repeat seed modulo repeats, and chooses its epoch by all."""
    rule: Literal["k_fold", "leave_one_group_out"] = Field(default="k_fold", title="Cross-validation: fold rule")
    """Whether folds are cut by group and class, or each group is a fold of its own, whatever their number."""

    @property
    def is_cross_validated(self) -> bool:
        """Whether predictions on held-out folds stand in for rows that select and calibrate."""
        return self.folds > 1 or self.rule == "leave_one_group_out"

    @property
    def shares(self) -> dict[str, float]:
        """The share of each role that is cut, in the order of cutting."""
        cut = dict.fromkeys(CUT, 0.0) if self.is_cross_validated else {role: getattr(self, role) for role in CUT}
        return {"test": self.test} | cut

    def identity(self) -> dict[str, Any]:
        """What decides a split: the fields that differ from their default and are read.

        A file of roles counts by its content, not by its name.
        """
        unread = {"roles_from"} | (set(CUT) if self.is_cross_validated else {"folds", "repeats"})
        unread |= set() if self.roles_from else {"unlisted"}
        unread |= {"seed"} if self.source == "time" and not self.is_cross_validated else set()
        return {"kind": self.kind} | self.model_dump(mode="json", exclude_defaults=True, exclude=unread)

    @model_validator(mode="after")
    def _shares_leave_rows(self) -> Self:
        left = 1.0
        for name, share in self.shares.items():
            if share > left / 2:
                raise ValueError(
                    f"a share must be at most half of the rows left for it, however: {name}={share} of {left:.2f}. "
                    "Lower it, or the shares before it."
                )
            left -= share
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.roles_from and self.source != "grouped_stratified":
            raise ValueError(
                f"roles come from one place, however: roles_from={self.roles_from!r} came with source={self.source}. "
                "Leave one of them out."
            )
        return self

    @model_validator(mode="after")
    def _folds_stand_alone(self) -> Self:
        if not self.is_cross_validated:
            return self
        asked = {role: getattr(self, role) for role in CUT}
        extra = {
            role: share for role, share in asked.items() if share not in (0, type(self).model_fields[role].default)
        }
        if extra:
            raise ValueError(
                f"cross-validation has no rows apart to select and calibrate, however: {extra} came with it. Leave "
                "those shares out, or folds and rule."
            )
        if self.rule == "leave_one_group_out" and (self.folds > 1 or self.repeats > 1):
            raise ValueError(
                f"leave_one_group_out makes one fold of each group, once, however: folds={self.folds} and "
                f"repeats={self.repeats} came with it. Leave them out, or the rule."
            )
        return self
