"""Each route of the gateway survives its largest legal requests in 1 GiB, with the default byte budget.

The gateway runs in a control group of 1 GiB. Each request is sent alone, and 80 at a time without reading the
responses; `make hostile` sends them in all combinations, and prints what another caller waits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.hostile.largest_campaign import MAX_LIVE_SECONDS, TOGETHER, Row, responds, sent
from tests.hostile.largest_requests import CHEAP, LARGE
from tests.hostile.limited_gateway import LimitedGateway, limited_gateway
from tests.support.raw_http import connect, get

ALONE_SECONDS: Final = 8.0
BURST_SECONDS: Final = 4.0
SERVED: Final = {"200", "201", "202", "204", "404", "409", "none"}
"""Statuses of requests that are sent alone; `none` where the response takes longer than the test waits."""

IN_EVERY_RUN: Final = ("POST /embed", "POST /v1/embeddings", "POST /v1/chat/completions", "POST /extract")
"""The large requests that each run sends. `make hostile` sends all: beside other tests on two cores, uploads and
downloads of 50 MB need more time than a run has."""

UNLISTED: Final = {"GET /openapi.json"}
"""Routes that are not in the OpenAPI document."""


class Gateways:
    """The gateway of these tests, and a new one after one was killed, so that each test reports its own route.

    Args:
        folder: where their data go.
        stack: ends them.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._running: LimitedGateway | None = None
        self._number = 0

    def running(self) -> LimitedGateway:
        """A gateway that runs."""
        running = self._running
        if running is None or running.served.process.poll() is not None:
            self._stack.close()
            self._number += 1
            folder = self._folder / str(self._number)
            folder.mkdir()
            running = self._running = self._stack.enter_context(limited_gateway(folder))
        return running


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """Starts gateways in a control group of 1 GiB."""
    with ExitStack() as stack:
        yield Gateways(tmp_path_factory.mktemp("limited"), stack)


def check(row: Row) -> None:
    """Check that the gateway has survived, and that another caller did not wait longer than a probe does."""
    assert row.survived, str(row)
    assert row.live_seconds < MAX_LIVE_SECONDS, str(row)


def test_each_route_has_a_largest_request(gateways: Gateways) -> None:
    with gateways.running().client as http:
        paths = http.get("/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations}

    assert (LARGE.keys() | CHEAP.keys()) - UNLISTED == routes, "add the largest legal request of a new route"


def test_all_other_requests_are_survived_alone_and_many_at_a_time(gateways: Gateways) -> None:
    gateway = gateways.running()
    for name, make in CHEAP.items():
        alone = sent(gateway, name, [make(gateway)], "read", ALONE_SECONDS)
        check(alone)
        assert alone.statuses.keys() <= SERVED, str(alone)
        check(sent(gateway, name, [make(gateway)] * TOGETHER, "read", BURST_SECONDS))


@pytest.mark.parametrize("name", IN_EVERY_RUN)
def test_a_large_request_is_survived_alone_and_many_times_unread(gateways: Gateways, name: str) -> None:
    gateway = gateways.running()
    request = LARGE[name](gateway)

    alone = sent(gateway, name, [request], "read", ALONE_SECONDS)
    check(alone)
    assert alone.statuses.keys() <= SERVED, str(alone)
    check(sent(gateway, name, [request] * TOGETHER, "unread", BURST_SECONDS))


def cpu_seconds(gateway: LimitedGateway) -> float:
    """Processor time of the gateway so far."""
    fields = Path(f"/proc/{gateway.served.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_pipelined_requests_of_callers_that_left_do_not_keep_the_gateway_busy(gateways: Gateways) -> None:
    """200 callers that sent 20 requests for the OpenAPI document each, and left, kept it busy for 21 s."""
    gateway = gateways.running()
    gateway.other.waits()
    with ExitStack() as stack:
        callers = [stack.enter_context(connect(gateway.served)) for _ in range(200)]
        for caller in callers:
            caller.sendall(get("/openapi.json") * 20)
        time.sleep(1)
    used = cpu_seconds(gateway)

    time.sleep(3)

    assert responds(gateway)
    assert cpu_seconds(gateway) - used < 1.5
    assert gateway.other.waits().live_seconds < MAX_LIVE_SECONDS
