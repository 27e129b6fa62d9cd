"""The metrics of uploaded files."""

from __future__ import annotations

from typing import Final

from prometheus_client import Gauge

FILES_BYTES: Final = Gauge(
    "ragstore_gateway_files_bytes", "Size of the files of /v1/files and of parts of uploads, of all tenants, in bytes."
)
FILES_LIMIT_BYTES: Final = Gauge("ragstore_gateway_files_limit_bytes", "Maximum size of all files together, in bytes.")
