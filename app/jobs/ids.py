"""Job IDs: the time in UTC and four random hex digits, so that they sort by age."""

import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta

_STAMP = "%Y%m%d-%H%M%S-%f"
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9a-f]{4}")


def new_id(created: float, after: str = "") -> str:
    """Return an ID for a job submitted at a time in seconds since 1970, sorted after the ID `after`.

    IDs define the order of the queue. If the clock was set back and an existing job has a later time, the new ID comes
    a microsecond after that.

    >>> new_id(0.0, "20261128-034512-999999-a1b2")[:22]
    '20261128-034513-000000'
    """
    stamp = datetime.fromtimestamp(created, UTC)
    # An ID whose digits are not a valid time sets no lower bound.
    with suppress(ValueError, OverflowError):
        stamp = max(stamp, datetime.strptime(after[:22], _STAMP).replace(tzinfo=UTC) + timedelta(microseconds=1))
    return f"{stamp:{_STAMP}}-{secrets.token_hex(2)}"


def is_id(name: str) -> bool:
    """Whether a name has the form of an ID.

    >>> is_id("20261128-034512-123456-a1b2"), is_id("../20261128-034512-123456-a1b2")
    (True, False)
    """
    return _ID.fullmatch(name) is not None
