"""SplitSpec: settings of a split."""

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from frostbench.embedcache.config import SETTINGS

CUT = ("select", "calibrate")
"""Roles without rows in cross-validation."""


class SplitSpec(BaseModel):
    """Settings of a split. Shares refer to all rows, and groups are never divided.

    With folds (or the rule leave_one_group_out) every row outside the test set is used for training and held out once
    per repeat. Validation and calibration shares do not apply then, and their defaults count as 0.

    >>> SplitSpec(folds=5).shares
    {'test': 0.2, 'select': 0.0, 'calibrate': 0.0}

    Raises:
        pydantic.ValidationError: a field is out of bounds, a share exceeds half of the remaining rows, or options of
            cross-validation conflict.
    """

    model_config = SETTINGS
    spec_version: ClassVar[int] = 1

    kind: Literal["split"] = "split"
    seed: int = Field(42, ge=0, le=2**32 - 3, title="Split seed")
    """Seed of the test split; validation and calibration, or the repeats of cross-validation, use the next numbers."""
    test: float = Field(0.2, ge=0, le=0.5, title="Test share")
    """Share of rows for the final test; 0 uses none."""
    select: float = Field(0.15, ge=0, le=0.5, title="Validation share")
    """Share of rows for choosing settings and epochs; 0 uses none."""
    calibrate: float = Field(0.1, ge=0, le=0.5, title="Calibration share")
    """Share of rows for fitting calibration and decisions; 0 uses none."""
    source: Literal["grouped_stratified", "given", "time"] = Field(
        default="grouped_stratified", title="Source of the test rows"
    )
    """Test rows are drawn by group and class, taken from the split column of the listing, or the newest rows."""
    roles_from: str = Field(default="", max_length=1000, json_schema_extra={"is_file": True}, title="Role file")
    """CSV or Parquet file with the columns id and role (train, select, calibrate or test)."""
    unlisted: Literal["none", "train", "select", "calibrate", "test"] = Field(
        default="none", title="Role of unlisted rows"
    )
    """Role of rows that the role file does not list; with none, every row must be listed."""
    duplicates: float | None = Field(
        None, ge=0.5, le=1, json_schema_extra={"empty": "ignored"}, title="Near-duplicates: cosine threshold"
    )
    """Cosine from which near-duplicates must stay on one side of the split, for example 0.98; none ignores them."""
    folds: int = Field(0, ge=0, le=50, title="Cross-validation: folds")
    """Number of cross-validation folds, which replace validation and calibration rows; 0 and 1 disable it."""
    repeats: int = Field(1, ge=1, le=100, title="Cross-validation: repeats")
    """Number of times folds are drawn; all serve to choose the epoch, and a run's seed selects one for evaluation."""
    imbalance: float | None = Field(
        None, ge=1, le=100_000, json_schema_extra={"empty": "all rows"}, title="Long tail: imbalance ratio"
    )
    """Largest over smallest class after leaving out training rows in an exponential profile; none uses all rows."""
    rule: Literal["k_fold", "leave_one_group_out"] = Field(default="k_fold", title="Cross-validation: fold rule")
    """Draw folds by group and class, or make every group a fold of its own."""

    @property
    def is_cross_validated(self) -> bool:
        """Whether out-of-fold predictions replace validation and calibration rows."""
        return self.folds > 1 or self.rule == "leave_one_group_out"

    @property
    def shares(self) -> dict[str, float]:
        """Share of each role, in the order in which they are taken."""
        cut = dict.fromkeys(CUT, 0.0) if self.is_cross_validated else {role: getattr(self, role) for role in CUT}
        return {"test": self.test} | cut

    def identity(self) -> dict[str, Any]:
        """Return the fields that determine a split: those in effect that differ from their default.

        A role file is identified by its content, not its name.
        """
        unread = {"roles_from"} | (set(CUT) if self.is_cross_validated else {"folds", "repeats"})
        unread |= set() if self.roles_from else {"unlisted"}
        reads_seed = self.source != "time" or self.is_cross_validated or self.imbalance is not None
        unread |= set() if reads_seed else {"seed"}
        return {"kind": self.kind} | self.model_dump(mode="json", exclude_defaults=True, exclude=unread)

    @model_validator(mode="after")
    def _shares_leave_rows(self) -> Self:
        left = 1.0
        for name, share in self.shares.items():
            if share > left / 2:
                raise ValueError(
                    f"A share must be at most half of the remaining rows, got {name}={share} of {left:.2f}. "
                    "Lower it, or the shares before it."
                )
            left -= share
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.roles_from and self.source != "grouped_stratified":
            raise ValueError(
                f"Roles must come from one source, got roles_from={self.roles_from!r} and source={self.source}. "
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
                f"Cross-validation has no validation and calibration rows, but got {extra}. Leave out these shares, or "
                "folds and rule."
            )
        if self.rule == "leave_one_group_out" and (self.folds > 1 or self.repeats > 1):
            raise ValueError(
                f"leave_one_group_out makes one fold per group, once, but got folds={self.folds} and "
                f"repeats={self.repeats}. Leave these out, or the rule."
            )
        return self
