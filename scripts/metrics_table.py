"""Generate the metrics tables of the documentation from the code: `python -m scripts.metrics_table`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import REGISTRY

import ragstore.app  # declares the service's metrics
import ragstore_gateway.app  # declares the gateway's
from ragstore.chroma.embedded import process_metrics
from ragstore.kit.metrics import dropped_lines, rejections
from ragstore_gateway.database import metrics as database_metrics
from scripts.settings_table import replace_table

PAGE = Path(__file__).resolve().parents[1] / "docs/metrics.md"
GATEWAY = ragstore_gateway.app.SERVICE.name
SERVICES = (ragstore.app.SERVICE.name, GATEWAY)
HEADINGS = {ragstore.app.SERVICE.name: "The store", GATEWAY: "The gateway"}
"""The heading of each service's table."""

HEAD = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"


@dataclass(frozen=True)
class Exported:
    """A metric that the service exports.

    Attributes:
        name: the name in Prometheus; for a histogram, without `_bucket`, `_sum` and `_count`.
        kind: counter, gauge, histogram or info.
        labels: the names of its labels.
        meaning: its help text.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


SUFFIXES = {"counter": "_total", "info": "_info"}


def exported(service: str = ragstore.app.SERVICE.name) -> list[Exported]:
    """All metrics of a service, sorted by name.

    Args:
        service: one of `SERVICES`.
    """
    # The kit declares these when logging is configured and when the middleware is created.
    for name in SERVICES:
        dropped_lines(name)
        rejections(name)
    # These are exported while embedded Chroma runs.
    process_metrics.watch_process(os.getpid())
    process_metrics.VOLUME.watch("/")
    # And these while the gateway's state is in SQLite.
    database_metrics.VOLUME.watch("/")
    found = {}
    for collector in set(REGISTRY._collector_to_names):
        for family in collector.collect():
            if _service_of(family.name) == service:
                name = family.name + SUFFIXES.get(family.type, "")
                labels = tuple(getattr(collector, "_labelnames", ())) or _undeclared_labels(name)
                found[name] = Exported(name, family.type, labels, family.documentation)
    process_metrics.release_process(os.getpid())
    process_metrics.VOLUME.release("/")
    database_metrics.VOLUME.release("/")
    return [found[name] for name in sorted(found)]


def _service_of(metric: str) -> str:
    """The service that exports a metric; empty for a metric of Python or Prometheus."""
    return max((name for name in SERVICES if metric.startswith(f"{name}_")), key=len, default="")


def _undeclared_labels(name: str) -> tuple[str, ...]:
    """The labels of metrics that do not declare them."""
    return ("version", "store", "python") if name == "ragstore_build_info" else ()


def table(service: str = ragstore.app.SERVICE.name) -> str:
    """Build the table of a service."""
    return HEAD + "".join(_row(metric) for metric in exported(service))


def _row(metric: Exported) -> str:
    labels = " ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |\n"


def main() -> None:
    """Replace the tables of the page."""
    for service, heading in HEADINGS.items():
        replace_table(PAGE, heading, HEAD, table(service))


if __name__ == "__main__":
    main()
