"""Metrics of embedded Chroma's process, and of the volume that its data is on, read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import Counter, Metric, ProcessCollector

from ragstore.kit.data_volume import DataVolume

STARTS: Final = Counter(
    "ragstore_chroma_process_starts_total", "Times that embedded Chroma's process was started, the first one included."
)

PROCESS: Final = {
    "ragstore_chroma_process_resident_memory_bytes": "Memory of embedded Chroma's process.",
    "ragstore_chroma_process_cpu_seconds": "CPU time of embedded Chroma's process; it starts over with the process.",
}
"""The metrics of prometheus_client that are exported, with their meaning."""

VOLUME: Final = DataVolume("ragstore")

_running: Final[set[int]] = set()


def watch_process(process_id: int) -> None:
    """Export the metrics of a process as embedded Chroma's."""
    _running.add(process_id)


def release_process(process_id: int) -> None:
    """Export the metrics of a process no longer."""
    _running.discard(process_id)


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


_ChromaProcess(namespace="ragstore_chroma", pid=_process_id)
