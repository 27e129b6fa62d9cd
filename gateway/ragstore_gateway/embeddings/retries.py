"""When a request to a provider is repeated, and after which time."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

MAX_ATTEMPTS: Final = 4
BASE_SECONDS: Final = 0.25
MAX_SECONDS: Final = 8.0

_TEMPORARY: Final = frozenset({408, 425, 429})
_PERMANENT: Final = frozenset({501, 505})


def is_temporary(status: int) -> bool:
    """Whether the same request may succeed later. An embedding changes nothing, so a repetition is always safe.

    Args:
        status: the status of a response. Proxies have further ones of 5xx for a server that is away, such as 521.
    """
    return status in _TEMPORARY or (status >= 500 and status not in _PERMANENT)


def backoff(attempt: int) -> float:
    """The wait before a further attempt, in seconds, with jitter.

    Args:
        attempt: the number of attempts that failed, from 1.
    """
    longest = min(MAX_SECONDS, BASE_SECONDS * 2 ** (attempt - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311  # spreads callers; it need not be unpredictable


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The wait that a response demands, in seconds.

    Args:
        headers: its headers. `retry-after-ms`, which Azure and OpenAI send, is more precise than `Retry-After`, which
            is a number of seconds or a date.

    Returns:
        The wait; None without a valid header.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("Retry-After", "")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
