"""Metrics of the volume that a data folder is on, read when Prometheus scrapes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class DataVolume(Collector):
    """Size and free space of the volume of a data folder.

    Args:
        prefix: the service's, of the names of the metrics.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._folders: set[str] = set()
        REGISTRY.register(self)

    def watch(self, folder: str) -> None:
        """Export the size of the volume that a folder is on."""
        self._folders.add(folder)

    def release(self, folder: str) -> None:
        """Export the size of the volume no longer."""
        self._folders.discard(folder)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics; none without a data folder."""
        # More than one folder is watched only where one process has several services: names must not repeat.
        for folder in sorted(self._folders)[:1]:
            with suppress(OSError):
                usage = shutil.disk_usage(folder)
                size, free = f"{self._prefix}_data_volume_bytes", f"{self._prefix}_data_volume_free_bytes"
                yield GaugeMetricFamily(size, "Size of the volume that the data folder is on.", usage.total)
                yield GaugeMetricFamily(free, "Free space on the volume of the data folder.", usage.free)
