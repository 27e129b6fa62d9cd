"""Whether traces are exported. Imports nothing of OpenTelemetry, which costs time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables for the destination of spans. Without either there are no traces."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether spans are made and exported.

    Args:
        environ: the process's environment.

    Returns:
        True when a destination for spans is set, and OpenTelemetry is not disabled by its own variables.
    """
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(environ.get(name) for name in ENDPOINTS)
