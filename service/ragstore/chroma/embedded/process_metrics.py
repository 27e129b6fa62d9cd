"""Metrics of embedded Chroma's process, and of the volume that its data is on, read when Prometheus scrapes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from prometheus_client import REGISTRY, Counter, Metric, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

STARTS: Final = Counter(
    "ragstore_chroma_process_starts_total", "Times that embedded Chroma's process was started, the first one included."
)

PROCESS: Final = {
    "ragstore_chroma_process_resident_memory_bytes": "Memory of embedded Chroma's process.",
    "ragstore_chroma_process_cpu_seconds": "CPU time of embedded Chroma's process; it starts over with the process.",
}
"""The metrics of prometheus_client that are exported, with their meaning."""

_running: Final[set[int]] = set()
_folders: Final[set[str]] = set()


def watch_process(process_id: int) -> None:
    """Export the metrics of a process as embedded Chroma's."""
    _running.add(process_id)


def release_process(process_id: int) -> None:
    """Export the metrics of a process no longer."""
    _running.discard(process_id)


def watch_folder(folder: str) -> None:
    """Export the size of the volume that a folder is on."""
    _folders.add(folder)


def release_folder(folder: str) -> None:
    """Export the size of the volume no longer."""
    _folders.discard(folder)


def _process_id() -> int:
    """The process that the metrics are of; 0, which is none, while there is none."""
    return next(iter(_running), 0)


class _ChromaProcess(ProcessCollector):
    """Memory and CPU of the process."""

    def collect(self) -> Iterator[Metric]:
        """The metrics; none while there is no process."""
        for metric in super().collect():
            if metric.name in PROCESS:
                metric.documentation = PROCESS[metric.name]
                yield metric


class _DataVolume(Collector):
    """Size and free space of the volume of the data folder."""

    def collect(self) -> Iterator[Metric]:
        """The metrics; none without a data folder."""
        for folder in _folders:
            with suppress(OSError):
                usage = shutil.disk_usage(folder)
                yield GaugeMetricFamily(
                    "ragstore_data_volume_bytes", "Size of the volume that the data folder is on.", usage.total
                )
                yield GaugeMetricFamily(
                    "ragstore_data_volume_free_bytes", "Free space on the volume of the data folder.", usage.free
                )


_ChromaProcess(namespace="ragstore_chroma", pid=_process_id)
REGISTRY.register(_DataVolume())
