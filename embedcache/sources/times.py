"""Capture times as ISO 8601 text that sorts chronologically."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
_CLOCK = r"([0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?|[0-9]{6})"
_MOMENT = re.compile(rf"({_DATE.pattern})[T ]{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?")


def as_time(text: str) -> str | None:
    """Convert a date or date-time to sortable text; None if it is neither.

    Times with an offset are converted to UTC.

    >>> as_time("20240131"), as_time("2024-01-31 10:20"), as_time("2024-01-31T10:20:30+02:00")
    ('2024-01-31', '2024-01-31T10:20:00', '2024-01-31T08:20:30+00:00')
    >>> as_time("31.01.2024") is as_time("2024-02-30") is None
    True
    """
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text).isoformat()
        if _MOMENT.fullmatch(text):
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo is None else moment.astimezone(UTC)).isoformat()
    except (ValueError, OverflowError):  # 30 February, or before the year 1 in UTC
        return None
    return None


def check_alike(times: Sequence[str]) -> None:
    """Check that all times have a UTC offset or none has, because mixed times cannot be ordered.

    Raises:
        ValueError: they are mixed.
    """
    aware = [time for time in times if time.endswith("+00:00")]
    if aware and len(aware) < len(times):
        naive = next(time for time in times if not time.endswith("+00:00"))
        raise ValueError(
            f"Either all times must have a UTC offset or none, but {len(aware)} of {len(times)} "
            f"{'has' if len(aware) == 1 else 'have'} one and {naive} has none. Write all times in the same form, for "
            "example with a final Z."
        )
