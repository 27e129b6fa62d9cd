"""What is refused at once because it is too much now, counted by its reason."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from prometheus_client import Counter

Reason: TypeAlias = Literal["requests", "queued_writes", "queued_bytes", "circuit_open", "stopping"]
"""Too many requests under way, writes waiting, bytes waiting; Chroma is away; the service stops."""

REJECTIONS: Final = Counter(
    "ragstore_refusals_total", "Requests, writes and calls to Chroma refused at once, by reason.", ["reason"]
)
for each in get_args(Reason):
    REJECTIONS.labels(each)  # an alert on growth needs the series before the first refusal
