"""`/metrics` is rendered family by family, and other requests run between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragstore.kit.metrics_route import rendered
from ragstore.kit.time_slices import SLICE_SECONDS, TimeSlices, run_whole


def test_the_text_is_that_of_the_whole_registry() -> None:
    registry = CollectorRegistry()
    Counter("cups", "Cups.", ["tea"], registry=registry).labels('as"sam\n').inc(3)
    Gauge("pots", "Pots.", registry=registry)
    Histogram("steeping_seconds", "Time.", registry=registry).observe(2)

    assert run_whole(rendered(registry)) == generate_latest(registry)


def test_an_empty_registry_is_an_empty_text() -> None:
    assert run_whole(rendered(CollectorRegistry())) == b""


async def test_other_tasks_run_between_the_families() -> None:
    class Slow(Collector):
        def collect(self) -> Iterator[Metric]:
            for number in range(10):
                time.sleep(1.5 * SLICE_SECONDS)
                yield GaugeMetricFamily(f"cups_{number}", "Cups.", value=number)

    registry = CollectorRegistry()
    registry.register(Slow())
    rendering = asyncio.create_task(TimeSlices().run(rendered(registry)))
    turns = 0
    while not rendering.done():
        await asyncio.sleep(0)
        turns += 1

    assert rendering.result().count(b"# TYPE") == 10
    assert turns > 10
