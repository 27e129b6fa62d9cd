"""The calls of `AsyncClient` on the service itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._async.base import CallSender

if TYPE_CHECKING:
    from ragstore_client import _models as models


class ServiceCalls(CallSender):
    """Service info, health, metrics and documentation."""

    async def info(self) -> models.ServiceInfo:
        """Get the service's name, version and links."""
        return await self._send(calls.info())

    async def health(self) -> models.Health:
        """Get the service's health. An unhealthy service is a result, not an error."""
        return await self._send(calls.health())

    async def live(self) -> models.Probe:
        """Check liveness: whether the process responds."""
        return await self._send(calls.probe("live"))

    async def ready(self) -> models.Probe:
        """Check readiness: whether the service can serve. A service that is not ready is a result, not an error."""
        return await self._send(calls.probe("ready"))

    async def metrics(self) -> str:
        """Get the metrics in Prometheus' text format."""
        return await self._send(calls.page("/metrics"))

    async def openapi(self) -> str:
        """Get the service's OpenAPI document, as JSON."""
        return await self._send(calls.page("/openapi.json"))

    async def docs(self) -> str:
        """Get the HTML page that documents the API."""
        return await self._send(calls.page("/docs"))
