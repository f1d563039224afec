"""Writing the final status of a job, even if the disk is full."""

import json
from dataclasses import asdict
from pathlib import Path

from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.records import Status

END_BYTES, LONGEST_MESSAGE = 4096, 300
"""Bytes reserved for the final status, and most characters of its message, each up to 12 bytes as ASCII JSON."""


def reserve_end(folder: Path) -> None:
    """Reserve space for the final status of a job by writing blanks, which `write_end` overwrites."""
    (folder / "end.json").write_bytes(b" " * END_BYTES)


def write_end(folder: Path, status: Status) -> None:
    """Write the final status of a job; if the disk is full, write a short form into the reserved space.

    Raises:
        OSError: the reserved space cannot be written either.
    """
    try:
        write_json(folder / "status.json", status)
    except OSError:
        end = asdict(Status(state=status.state, message=status.message[:LONGEST_MESSAGE], ended=status.ended))
        with (folder / "end.json").open("r+b") as file:
            file.write(json.dumps(end).encode("ascii").ljust(END_BYTES))
