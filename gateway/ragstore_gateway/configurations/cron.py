"""Times of scheduled runs, as crontab writes them: five fields, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from croniter import croniter
from croniter.croniter import CroniterError

FIELDS: Final = 5

_FIELD: Final = re.compile(
    r"(?:[0-9*,/#l-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+", re.IGNORECASE
)
"""croniter has random values (`R`, `H`), too. A schedule whose times differ between replicas is of no use."""


def next_time(cron: str, after: datetime) -> datetime:
    """The first time of a schedule after another time.

    Args:
        cron: the schedule.
        after: the other time, with a zone.

    Returns:
        The time in UTC.

    Raises:
        ValueError: the schedule is not valid, or its time never comes.
    """
    fields = cron.split()
    if len(fields) != FIELDS or not all(_FIELD.fullmatch(field) for field in fields):
        raise ValueError("not five fields of crontab")
    try:
        found: datetime = croniter(" ".join(fields), after.astimezone(UTC)).get_next(datetime)
    except (CroniterError, IndexError, KeyError, TypeError) as error:
        raise ValueError("not a schedule") from error
    return found
