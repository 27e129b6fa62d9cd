"""Requests by route and status, for Prometheus: the metrics of Litestar's plugin, counted outside of Litestar.

The plugin's own middleware stands behind the router: it sees no unknown path, no wrong method, and nothing of what is
refused because the service is full. It also took about 6 % of a request's time. So its metrics are counted here, where
every request passes, and their series are looked up once.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Final

from litestar.enums import ScopeType
from litestar.plugins.prometheus import PrometheusConfig, PrometheusMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import Counter, Gauge, Histogram

from ragstore.kit.deferred_metrics import flush, note

METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
"""Methods that have a label of their own. A caller may send any word; those share one."""

OTHER: Final = "other"
UNROUTED: Final = "unrouted"
"""Stands for the route of what was answered without one: unknown paths, wrong methods, refusals, and no HTTP at all."""


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    """No application: of the plugin's middleware only the metrics are used."""


_plugin: Final = PrometheusMiddleware(
    _nowhere,
    PrometheusConfig(
        prefix="ragstore", buckets=[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
    ),
)
_LABELS: Final[dict[str, str | int | float]] = {"method": "", "path": "", "status_code": ""}
REQUESTS: Final[Counter] = _plugin.request_count(_LABELS)
SECONDS: Final[Histogram] = _plugin.request_time(_LABELS)
IN_PROGRESS: Final[Gauge] = _plugin.requests_in_progress({})
LIMIT: Final = Gauge("ragstore_requests_in_progress_limit", "Most requests under way at once.")

_series: Final[dict[tuple[str, str, int], tuple[Counter, Histogram]]] = {}


def _counted(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """The series of a method, a route and a status."""
    key = (method if method in METHODS else OTHER, route, status)
    found = _series.get(key)
    if found is None:
        found = _series[key] = (REQUESTS.labels(*key), SECONDS.labels(*key))
    return found


def count_unparsed(status: int) -> None:
    """Count a request that could not be read.

    Args:
        status: how it was answered.
    """
    _counted(OTHER, UNROUTED, status)[0].inc()


class MetricsMiddleware:
    """Counts requests, and measures how long their answers take.

    Args:
        app: the application.
        most: most requests under way at once, which is told next to how many are.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        LIMIT.set(most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        started = ended = time.perf_counter()
        # The server answers so when the application does not.
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR

        async def counted(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
            ended = time.perf_counter()
            await send(message)

        note(IN_PROGRESS.inc)
        try:
            await self._app(scope, receive, counted)
        finally:
            IN_PROGRESS.dec()
            count, seconds = _counted(scope["method"], scope.get("path_template") or UNROUTED, status)
            count.inc()
            seconds.observe(max(ended - started, 0.0))
            flush()
