"""`GET /metrics`, whose text is made in slices: hundreds of series take 30 ms, in which no other request would run."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ragstore.kit.auth.roles import requires
from ragstore.kit.time_slices import TimeSlices


class _Family(Collector):
    """One family of metrics, as a registry of its own."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        """The family."""
        yield self._metric


def rendered(registry: CollectorRegistry = REGISTRY) -> Generator[None, None, bytes]:
    """The metrics in Prometheus' text format, in steps of one family."""
    families: list[bytes] = []
    for metric in registry.collect():
        families.append(generate_latest(_Family(metric)))
        yield
    return b"".join(families)


def metrics_route(role: str) -> HTTPRouteHandler:
    """The route of the metrics.

    Args:
        role: the role that may read them.
    """
    slices = TimeSlices()

    @get("/metrics", include_in_schema=False, opt=requires(role))
    async def metrics() -> Response[Any]:
        """Prometheus metrics."""
        return Response(await slices.run(rendered()), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics
