"""The calls of `AsyncClient` on the service itself."""

from __future__ import annotations

from typing import Unpack

from ragstore_client import _calls as calls
from ragstore_client import _models as models
from ragstore_client._async.base import CallSender
from ragstore_client._options import CallOptions


class ServiceCalls(CallSender):
    """Service info, health, metrics and documentation."""

    async def info(self, **options: Unpack[CallOptions]) -> models.ServiceInfo:
        """Get the service's name, version and links."""
        return await self._send(calls.info(), options)

    async def health(self, **options: Unpack[CallOptions]) -> models.Health:
        """Get the service's health. An unhealthy service is a result, not an error."""
        return await self._send(calls.health(), options)

    async def live(self, **options: Unpack[CallOptions]) -> models.Probe:
        """Check liveness: whether the process responds."""
        return await self._send(calls.probe("live"), options)

    async def ready(self, **options: Unpack[CallOptions]) -> models.Probe:
        """Check readiness: whether the service can serve. A service that is not ready is a result, not an error."""
        return await self._send(calls.probe("ready"), options)

    async def metrics(self, **options: Unpack[CallOptions]) -> str:
        """Get the metrics in Prometheus' text format."""
        return await self._send(calls.page("/metrics"), options)

    async def openapi(self, **options: Unpack[CallOptions]) -> str:
        """Get the service's OpenAPI document, as JSON."""
        return await self._send(calls.page("/openapi.json"), options)

    async def api_docs(self, **options: Unpack[CallOptions]) -> str:
        """Get the HTML page that documents the HTTP API."""
        return await self._send(calls.page("/docs"), options)
