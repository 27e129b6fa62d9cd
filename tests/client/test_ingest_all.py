"""Ingestion as a whole: counts, failures, retries that last, interruptions, progress."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

import pytest

from ragstore_client import (
    NO_RETRIES,
    AsyncClient,
    BatchLimits,
    Client,
    IngestionFailed,
    InvalidInput,
    NewDocument,
    NotFound,
    RetryPolicy,
    Unavailable,
)
from tests.client.clients import ClientFactory
from tests.client.fake_servers import FakeIngestion, LocalServer, Request, Response, scripted_server

STORED = Response(200, {"status": "upserted", "collection": "abc", "count": 2, "ids": []})
AWAY = Response(503, {"title": "Away", "detail": "away", "code": "chroma_unavailable"})


def documents(count: int) -> Iterator[NewDocument]:
    for number in range(count):
        yield NewDocument(id=f"d{number}", text="x", embedding=[1.0, float(number)])


def wait_for_requests(server: LocalServer, count: int) -> None:
    """Wait until a server has received requests, and its client the responses that it sends."""
    deadline = time.monotonic() + 30
    while len(server.requests) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)


def forget(ingestion: object) -> None:
    del ingestion
    gc.collect()


def test_all_documents_are_stored_and_failures_are_counted(client: Client, client_collection: str) -> None:
    mixed = [*documents(6), NewDocument(id="wrong", text="x", embedding=[1.0]), NewDocument(text="x", embedding=[1.0])]
    report = client.ingest_all(client_collection, mixed)
    assert (report.total, report.stored, report.failed, report.in_flight) == (8, 6, 2, 0)
    assert [outcome.index for outcome in report.failures] == [6, 7]
    with pytest.raises(IngestionFailed, match=r"6 of 8 documents stored, 2 failed: document 6 \('wrong'\): ") as caught:
        report.raise_for_failures()
    assert caught.value.report is report


def test_without_failures_nothing_is_raised(client: Client, client_collection: str) -> None:
    report = client.ingest_all(client_collection, documents(3))
    report.raise_for_failures()
    assert str(report) == "3 of 3 documents stored, 0 failed"


def test_documents_may_be_mappings(client: Client, client_collection: str) -> None:
    rows = [{"id": "a", "text": "x", "embedding": [1.0], "metadata": {"n": 1}}]
    assert client.ingest_all(client_collection, rows).stored == 1
    assert client.get_document(client_collection, "a").metadata == {"n": 1}


def test_an_ingestion_that_is_never_iterated_warns() -> None:
    with Client() as client, pytest.warns(RuntimeWarning, match="never iterated"):
        forget(client.ingest("abc", documents(3)))


async def test_an_ingestion_that_is_never_iterated_warns_with_asyncio() -> None:
    async with AsyncClient() as client:
        with pytest.warns(RuntimeWarning, match="never iterated"):
            forget(client.ingest("abc", documents(3)))


def test_an_iterated_ingestion_does_not_warn(make_client: ClientFactory) -> None:
    with scripted_server(STORED) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        list(make_client(server.url).ingest("abc", documents(2)))
        gc.collect()


@pytest.mark.parametrize("single", [{"id": "a"}, "text", NewDocument(text="x", embedding=[1.0])])
def test_one_document_in_place_of_several_is_refused(make_client: ClientFactory, single: object) -> None:
    with pytest.raises(InvalidInput, match="not one"):
        make_client("http://localhost").ingest("abc", single)  # type: ignore[arg-type]  # what this is about


def test_the_error_that_ends_an_ingestion_is_raised_with_the_counts(client: Client) -> None:
    with pytest.raises(NotFound) as caught:
        client.ingest_all("nowhere", documents(3))
    assert caught.value.__notes__ == [
        "ingestion into 'nowhere': 0 of 3 documents stored, 3 failed: "
        + "; ".join(["Collection 'nowhere' not found"] * 3)
    ]


def test_retries_last_longer_than_those_of_a_call(make_client: ClientFactory) -> None:
    with scripted_server(*[AWAY] * 20, STORED) as server:
        client = make_client(server.url, retries=RetryPolicy(attempts=2, base=0.01, cap=0.02))
        assert client.ingest_all("abc", documents(2)).stored == 2
    assert len(server.requests) == 21


def test_the_time_of_retries_is_limited(make_client: ClientFactory) -> None:
    with scripted_server(AWAY) as server:
        client = make_client(server.url, retries=RetryPolicy(attempts=2, base=0.01, cap=0.02))
        with pytest.raises(Unavailable):
            client.ingest_all("abc", documents(2), retry_seconds=0.3)
    assert len(server.requests) >= 2


def test_a_client_without_retries_does_not_retry_an_ingestion(make_client: ClientFactory) -> None:
    with scripted_server(AWAY) as server:
        for options in ({"retries": NO_RETRIES}, {"retries": 0}):
            with pytest.raises(Unavailable):
                make_client(server.url, **options).ingest_all("abc", documents(2))
    assert len(server.requests) == 2


def test_leaving_an_ingestion_does_not_wait_for_requests_that_hang() -> None:
    hanging = FakeHanging()
    with LocalServer(hanging.respond) as server, Client(server.url, timeout=30) as client:
        ingestion = client.ingest("abc", documents(10), limits=BatchLimits(documents=2), concurrency=2)
        assert next(ingestion).stored
        started = time.monotonic()
        ingestion.close()
        assert time.monotonic() - started < 10  # the requests hang for 30 s
        assert ingestion.report.in_flight >= 1


class FakeHanging:
    """A service that stores the first documents, and never responds to a request with others."""

    def __init__(self) -> None:
        self._ingestion = FakeIngestion()

    def respond(self, request: Request) -> Response:
        first = json.loads(request.body)["documents"][0]["id"]
        return self._ingestion.respond(request) if first in ("0", "d0") else Response(delay=30)


INTERRUPTED = """
import sys
from ragstore_client import BatchLimits, Client, IngestionInterrupted
rows = ({"id": str(number), "text": "x", "embedding": [1.0]} for number in range(20))
try:
    Client(sys.argv[1]).ingest_all("abc", rows, limits=BatchLimits(documents=2), concurrency=2)
except IngestionInterrupted as interrupted:
    print(interrupted.report.stored, interrupted.report.in_flight > 0)
"""

ASYNC_INTERRUPTED = """
import asyncio, sys
from ragstore_client import AsyncClient, BatchLimits
rows = ({"id": str(number), "text": "x", "embedding": [1.0]} for number in range(20))
async def main():
    global ingestion
    ingestion = AsyncClient(sys.argv[1]).ingest("abc", rows, limits=BatchLimits(documents=2), concurrency=2)
    async for _ in ingestion:
        pass
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print(ingestion.report.stored, ingestion.report.in_flight > 0)
"""


@pytest.mark.process
@pytest.mark.parametrize("program", [INTERRUPTED, ASYNC_INTERRUPTED], ids=["sync", "async"])
def test_ctrl_c_ends_an_ingestion_that_hangs_and_says_what_is_stored(program: str) -> None:
    with LocalServer(FakeHanging().respond) as server:
        child = subprocess.Popen([sys.executable, "-c", program, server.url], stdout=subprocess.PIPE, text=True)
        wait_for_requests(server, 3)
        os.kill(child.pid, signal.SIGINT)
        output, _ = child.communicate(timeout=20)  # a request hangs for 30 s
    assert output.split() == ["2", "True"]


def test_progress_is_shown(make_client: ClientFactory, capfd: pytest.CaptureFixture[str]) -> None:
    with scripted_server(STORED) as server:
        make_client(server.url).ingest_all("abc", list(documents(4)), progress=True)
    assert "4/4" in capfd.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(("missing", "shown"), [(["tqdm"], "documents"), (["tqdm", "rich"], "No progress bar")])
def test_progress_needs_neither_tqdm_nor_rich(missing: list[str], shown: str) -> None:
    program = (
        "import logging, sys\nlogging.basicConfig()\n"
        f"for name in {missing}: sys.modules[name] = None; sys.modules[name + '.progress'] = None\n"
        "from ragstore_client._progress import progress_bar\n"
        "bar = progress_bar([1, 2]); bar.advance([]); bar.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown in done.stdout + done.stderr


async def test_a_cancelled_ingestion_has_its_counts_as_a_note() -> None:
    with LocalServer(FakeHanging().respond) as server:
        async with AsyncClient(server.url) as client:
            limits = BatchLimits(documents=2)
            task = asyncio.ensure_future(client.ingest_all("abc", documents(8), limits=limits, concurrency=2))
            await asyncio.to_thread(wait_for_requests, server, 3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
