# Generated from _async/service.py by scripts/generate_sync_client.py: do not edit.
"""The calls of `Client` on the service itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._sync.base import CallSender

if TYPE_CHECKING:
    from ragstore_client import _models as models


class ServiceCalls(CallSender):
    """Service info, health, metrics and documentation."""

    def info(self) -> models.ServiceInfo:
        """Get the service's name, version and links."""
        return self._send(calls.info())

    def health(self) -> models.Health:
        """Get the service's health. An unhealthy service is a result, not an error."""
        return self._send(calls.health())

    def live(self) -> models.Probe:
        """Check liveness: whether the process responds."""
        return self._send(calls.probe("live"))

    def ready(self) -> models.Probe:
        """Check readiness: whether the service can serve. A service that is not ready is a result, not an error."""
        return self._send(calls.probe("ready"))

    def metrics(self) -> str:
        """Get the metrics in Prometheus' text format."""
        return self._send(calls.page("/metrics"))

    def openapi(self) -> str:
        """Get the service's OpenAPI document, as JSON."""
        return self._send(calls.page("/openapi.json"))

    def docs(self) -> str:
        """Get the HTML page that documents the API."""
        return self._send(calls.page("/docs"))
