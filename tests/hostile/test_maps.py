"""A map of 10,000 documents takes seconds of a core: others are served meanwhile, and a caller that leaves ends it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from select import select

import httpx
import numpy as np
import pytest

from tests.support.documents import add, document
from tests.support.problems import problem_of
from tests.support.raw_http import connect
from tests.support.servers import Served, running, start_service

PATH = "/collections/large/map"
LARGEST = b'{"points": 10000}'
OTHERS = count(1)
"""Points of small maps. Each is another one, which is not cached."""


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a collection of 10,000 documents."""
    with running(start_service(tmp_path_factory.mktemp("mapped"))) as served:
        with httpx.Client(base_url=served.url, timeout=120) as http:
            http.post("/collections", json={"name": "large"}).raise_for_status()
            rows = np.random.default_rng(1).standard_normal((10_000, 3)).astype(np.float32)
            for first in range(0, len(rows), 5000):
                block = enumerate(rows[first : first + 5000].tolist(), first)
                add(http, "large", *(document(f"d{index}", embedding=row) for index, row in block))
        yield served


@pytest.fixture
def caller(mapped: Served) -> Iterator[httpx.Client]:
    """A client of that service, whose map of the collection is not cached."""
    with httpx.Client(base_url=mapped.url, timeout=60) as http:
        http.put("/collections/large/documents", json={"documents": [document("d0", embedding=[1, 1, 1])]})
        yield http


def until_rejected(http: httpx.Client, after_map: Callable[[], None] = lambda: None) -> httpx.Response:
    """Request small maps until another one is being made.

    Args:
        after_map: called after each map.
    """
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        response = http.post(PATH, json={"points": next(OTHERS)})
        if response.status_code != httpx.codes.OK:
            return response
        after_map()
    raise AssertionError("no map was made")


def test_others_are_served_while_a_map_is_made_and_another_map_is_503(mapped: Served, caller: httpx.Client) -> None:
    def make() -> httpx.Response:
        # The other caller may be the one whose map is made.
        while (response := httpx.post(mapped.url + PATH, content=LARGEST, timeout=60)).status_code == 503:
            pass
        return response

    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(make)
        rejected = until_rejected(caller)
        served = caller.post("/collections/large/query", json={"query_embedding": [1, 0, 0]})
        meanwhile = not made.done()

    assert problem_of(rejected, 503)["code"] == "overloaded"
    assert rejected.headers["retry-after"] == "1"
    assert served.json()["count"] == 5
    assert meanwhile
    assert len(made.result().json()["ids"]) == 10_000
    assert caller.post(PATH, json={"points": next(OTHERS)}).status_code == httpx.codes.OK


def test_a_caller_that_disconnects_ends_its_map(mapped: Served, caller: httpx.Client) -> None:
    def left() -> int:
        found = re.findall(r"ragstore_requests_total\{.*map.*499.*\} (\d+)", caller.get("/metrics").text)
        return sum(map(int, found))

    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(LARGEST)}\r\n\r\n".encode()
    with connect(mapped) as connection:
        connection.sendall(head + LARGEST)

        def repeat_if_rejected() -> None:
            # A small map was being made.
            if select([connection], [], [], 0)[0]:
                assert b" 503 " in connection.recv(100_000)
                connection.sendall(head + LARGEST)

        until_rejected(caller, repeat_if_rejected)
    ends = time.monotonic() + 30
    while not left() and time.monotonic() < ends:
        time.sleep(0.05)

    assert left() == 1
    assert caller.post(PATH, json={"points": next(OTHERS)}).status_code == httpx.codes.OK
