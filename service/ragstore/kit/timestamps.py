"""Times in responses."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """The current time in UTC, in milliseconds (RFC 3339)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
