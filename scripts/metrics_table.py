"""Generate the metrics table of docs/monitoring.md from the code: `python -m scripts.metrics_table`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import REGISTRY

import ragstore.app  # declares the service's metrics
from ragstore.chroma.embedded import process_metrics
from ragstore.kit.metrics import dropped_lines, rejections

PAGE = Path(__file__).resolve().parents[1] / "docs/monitoring.md"
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


def exported() -> list[Exported]:
    """All metrics of ragstore, sorted by name."""
    # The kit declares these when logging is configured and when the middleware is created.
    dropped_lines(ragstore.app.SERVICE.name)
    rejections(ragstore.app.SERVICE.name)
    # These are exported while embedded Chroma runs.
    process_metrics.watch_process(os.getpid())
    process_metrics.watch_folder("/")
    found = {}
    for collector in set(REGISTRY._collector_to_names):
        for family in collector.collect():
            if family.name.startswith("ragstore_"):
                name = family.name + SUFFIXES.get(family.type, "")
                labels = tuple(getattr(collector, "_labelnames", ())) or _undeclared_labels(name)
                found[name] = Exported(name, family.type, labels, family.documentation)
    return [found[name] for name in sorted(found)]


def _undeclared_labels(name: str) -> tuple[str, ...]:
    """The labels of metrics that do not declare them."""
    return ("version", "store", "python") if name == "ragstore_build_info" else ()


def table() -> str:
    """Build the table."""
    return HEAD + "".join(_row(metric) for metric in exported())


def _row(metric: Exported) -> str:
    labels = " ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |\n"


def main() -> None:
    """Replace the table in the page."""
    text = PAGE.read_text()
    PAGE.write_text(re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(), text))


if __name__ == "__main__":
    main()
