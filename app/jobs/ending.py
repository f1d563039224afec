"""The end of a job in its files, even where the disk is full."""

import json
from dataclasses import asdict
from pathlib import Path

from frostbench.app.jobs.files import Status, write_json

END_BYTES, LONGEST_WORDS = 4096, 300
"""Room for a job's last words, and letters of them: as ASCII in JSON a letter takes up to twelve bytes."""


def reserve_end(folder: Path) -> None:
    """Set room aside for the last words of a job: spaces, which `write_end` writes over."""
    (folder / "end.json").write_bytes(b" " * END_BYTES)


def write_end(folder: Path, status: Status) -> None:
    """Write the status with which a job ends; where nothing more can be written, its last words into their room.

    Raises:
        OSError: there is no room either.
    """
    try:
        write_json(folder / "status.json", status)
    except OSError:
        said = asdict(Status(state=status.state, message=status.message[:LONGEST_WORDS], ended=status.ended))
        with (folder / "end.json").open("r+b") as file:
            file.write(json.dumps(said).encode("ascii").ljust(END_BYTES))
