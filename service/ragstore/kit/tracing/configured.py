"""Whether traces are wanted. Imports nothing of OpenTelemetry, which costs time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables for where spans are sent. Without either there are no traces."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Tell whether spans are to be made and sent.

    Args:
        environ: the process's environment.

    Returns:
        True when an address for spans is set, and OpenTelemetry is not switched off by its own variables.
    """
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(environ.get(name) for name in ENDPOINTS)
