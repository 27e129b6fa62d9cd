"""The metrics of tenants."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

USAGE: Final = Gauge(
    "ragstore_gateway_tenant_usage",
    "Usage of a tenant for each limit: bases, documents, bytes, requests of the minute, tokens of the day.",
    ["tenant", "limit"],
)
LIMIT: Final = Gauge("ragstore_gateway_tenant_limit", "The limit of a tenant, if it has one.", ["tenant", "limit"])
REFUSED: Final = Counter(
    "ragstore_gateway_tenant_rejections_total",
    "Requests, bases and documents that a limit of their tenant rejected.",
    ["tenant", "limit"],
)


def refused(tenant: str, limit: str) -> None:
    """Count a rejection.

    Args:
        limit: the field of the settings, such as `maxBases`.
    """
    REFUSED.labels(tenant, limit).inc()
