"""LabelSpec: settings that change the labels of a cache for a bench."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from frostbench.embedcache.config import SETTINGS
from frostbench.embedcache.labels.corrections import read_corrections
from frostbench.embedcache.labels.relabelling import Relabelling

ClassName = Annotated[str, Field(min_length=1, max_length=1000)]


class LabelSpec(BaseModel):
    """Corrections of labels, merged classes and classes to leave out; the cache stays as it is.

    Raises:
        pydantic.ValidationError: a class has no name.
    """

    model_config = SETTINGS

    file: str = Field(default="", max_length=1000, json_schema_extra={"is_file": True}, title="Label corrections")
    """CSV or Parquet file with the columns id, old and new; an empty new label leaves the image out."""
    merge: Annotated[
        dict[ClassName, Annotated[tuple[ClassName, ...], Field(min_length=1, max_length=1000)]],
        Field(default_factory=dict, max_length=1000, title="Merged classes"),
    ]
    """Classes by the class that they become part of, such as {oak: [holm oak, cork oak]}."""
    leave_out: Annotated[tuple[ClassName, ...], Field(max_length=1000, title="Classes to leave out")] = ()
    """Classes whose images are left out, after corrections and merging."""

    def relabelling(self) -> Relabelling:
        """Return the changes, with the lines of the file.

        Raises:
            LabelError: the file cannot be read.
        """
        corrections = read_corrections(Path(self.file)) if self.file else ()
        return Relabelling(corrections, dict(self.merge), self.leave_out)
