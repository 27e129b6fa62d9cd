# Generated from _async/service.py by scripts/generate_sync_client.py: do not edit.
"""The calls of `Client` on the service itself."""

from __future__ import annotations

from typing import Unpack

from ragstore_client import _calls as calls
from ragstore_client import _models as models
from ragstore_client._options import CallOptions
from ragstore_client._sync.base import CallSender


class ServiceCalls(CallSender):
    """Service info, health, metrics and documentation."""

    def info(self, **options: Unpack[CallOptions]) -> models.ServiceInfo:
        """Get the service's name, version and links."""
        return self._send(calls.info(), options)

    def health(self, **options: Unpack[CallOptions]) -> models.Health:
        """Get the service's health. An unhealthy service is a result, not an error."""
        return self._send(calls.health(), options)

    def live(self, **options: Unpack[CallOptions]) -> models.Probe:
        """Check liveness: whether the process responds."""
        return self._send(calls.probe("live"), options)

    def ready(self, **options: Unpack[CallOptions]) -> models.Probe:
        """Check readiness: whether the service can serve. A service that is not ready is a result, not an error."""
        return self._send(calls.probe("ready"), options)

    def metrics(self, **options: Unpack[CallOptions]) -> str:
        """Get the metrics in Prometheus' text format."""
        return self._send(calls.page("/metrics"), options)

    def openapi(self, **options: Unpack[CallOptions]) -> str:
        """Get the service's OpenAPI document, as JSON."""
        return self._send(calls.page("/openapi.json"), options)

    def api_docs(self, **options: Unpack[CallOptions]) -> str:
        """Get the HTML page that documents the HTTP API."""
        return self._send(calls.page("/docs"), options)
