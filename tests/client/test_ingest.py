"""Batch ingestion through both clients: any iterable, an outcome for every document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from threading import Lock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_client import (
    NO_RETRIES,
    AsyncClient,
    BadRequest,
    BatchLimits,
    Client,
    Conflict,
    InvalidInput,
    NewDocument,
    NotFound,
    Outcome,
    Unavailable,
)
from ragstore_client._batches import Batcher
from tests.client.conftest import Connect
from tests.client.servers import Answer, LocalServer, Request, scripted
from tests.support.servers import Served


def documents(count: int, *, start: int = 0, dimension: int = 2) -> Iterator[NewDocument]:
    for number in range(start, start + count):
        yield NewDocument(id=f"d{number}", text=f"text {number}", embedding=[1.0, *[float(number)] * (dimension - 1)])


def failed(outcomes: list[Outcome]) -> list[str | None]:
    return [outcome.id for outcome in outcomes if not outcome.stored]


class Taking:
    """A service that takes everything, and remembers how much came at once."""

    def __init__(self, most: int = 10**9) -> None:
        self.sizes: list[int] = []
        self.ids: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self._most = most
        self._lock = Lock()

    def respond(self, request: Request) -> Answer:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        ids = [document["id"] for document in json.loads(request.body)["documents"]]
        with self._lock:
            self.at_once -= 1
            if len(ids) > self._most:
                return Answer(400, {"detail": f"At most {self._most} documents"})
            self.sizes.append(len(ids))
            self.ids += ids
        return Answer(200, {"status": "upserted", "collection": "abc", "count": len(ids), "ids": ids}, delay=0.01)


def test_every_document_is_stored_and_has_an_outcome_in_order(client: Client, collection: str) -> None:
    outcomes = list(client.ingest(collection, documents(25), limits=BatchLimits(documents=4)))
    assert [outcome.index for outcome in outcomes] == list(range(25))
    assert [outcome.id for outcome in outcomes] == [f"d{number}" for number in range(25)]
    assert failed(outcomes) == []
    assert client.get_collection(collection).count == 25


def test_nothing_to_ingest_is_no_call(connect: Connect) -> None:
    with scripted(Answer(500)) as server:
        assert list(connect(server.url).ingest("abc", [])) == []
    assert server.requests == []


def test_batches_keep_to_count_and_bytes(connect: Connect) -> None:
    taking = Taking()
    with LocalServer(taking.respond) as server:
        list(connect(server.url).ingest("abc", documents(10), limits=BatchLimits(documents=3)))
        assert sorted(taking.sizes) == [1, 3, 3, 3]
        list(connect(server.url).ingest("abc", documents(10, start=10), limits=BatchLimits(body_bytes=200)))
    assert all(len(request.body) < 200 + 100 for request in server.requests[4:])
    assert sorted(taking.ids) == sorted(f"d{number}" for number in range(20))


def test_no_more_requests_at_once_than_allowed(connect: Connect) -> None:
    taking = Taking()
    with LocalServer(taking.respond) as server:
        list(connect(server.url).ingest("abc", documents(30), limits=BatchLimits(documents=1), concurrency=3))
    assert taking.most_at_once <= 3


def test_a_document_that_is_refused_fails_alone(client: Client, collection: str) -> None:
    client.upsert_documents(collection, [NewDocument(id="first", text="x", embedding=[1.0, 0.0])])
    mixed = [*documents(6), NewDocument(id="wrong", text="x", embedding=[1.0, 2.0, 3.0]), *documents(6, start=6)]
    outcomes = list(client.ingest(collection, mixed))
    assert failed(outcomes) == ["wrong"]
    assert isinstance(outcomes[6].error, BadRequest)
    assert client.get_collection(collection).count == 13


def test_a_document_that_cannot_be_sent_fails_alone(client: Client, collection: str) -> None:
    mixed = [
        NewDocument(id="nan", text="x", embedding=[1.0], metadata={"a": float("nan")}),
        NewDocument(id="surrogate", text="\ud800", embedding=[1.0]),
        NewDocument(text="without id", embedding=[1.0]),
        NewDocument(id="empty", text="x", embedding=[]),
        NewDocument(id="good", text="x", embedding=[1.0]),
    ]
    outcomes = list(client.ingest(collection, mixed))
    assert failed(outcomes) == ["nan", "surrogate", None, "empty"]
    assert all(isinstance(outcome.error, InvalidInput) for outcome in outcomes[:4])


def test_add_reports_the_ids_that_exist(client: Client, collection: str) -> None:
    client.upsert_documents(collection, documents(3, start=4))
    outcomes = list(client.ingest(collection, documents(10), mode="add"))
    assert failed(outcomes) == ["d4", "d5", "d6"]
    assert all(isinstance(outcome.error, Conflict) for outcome in outcomes[4:7])


def test_the_last_of_several_with_one_id_wins(client: Client, collection: str) -> None:
    twice = [
        NewDocument(id=f"d{number % 5}", text=f"round {number // 5}", embedding=[1.0, float(number)])
        for number in range(20)
    ]
    outcomes = list(client.ingest(collection, twice, limits=BatchLimits(documents=3), concurrency=4))
    assert failed(outcomes) == []
    assert {document.text for document in client.iter_documents(collection)} == {"round 3"}


def test_a_service_that_takes_less_is_learnt_from(connect: Connect) -> None:
    taking = Taking(most=5)
    with LocalServer(taking.respond) as server:
        outcomes = list(
            connect(server.url).ingest("abc", documents(60), limits=BatchLimits(documents=10), concurrency=1)
        )
    assert failed(outcomes) == []
    assert taking.sizes == [5] * 12
    assert len(server.requests) < 16


def test_looking_for_the_documents_to_blame_has_an_end(connect: Connect) -> None:
    with scripted(Answer(400, {"detail": "no"})) as server:
        limits = BatchLimits(documents=100, requests=10)
        outcomes = list(connect(server.url).ingest("abc", documents(100), limits=limits))
    assert len(failed(outcomes)) == 100
    assert len(server.requests) <= 10


def test_a_missing_collection_ends_it_with_an_outcome_for_all_that_was_read(client: Client) -> None:
    read: list[NewDocument] = []

    def source() -> Iterator[NewDocument]:
        for document in documents(1000):
            read.append(document)
            yield document

    outcomes = []
    with pytest.raises(NotFound):  # noqa: PT012 - the outcomes before the error are what this is about
        for outcome in client.ingest("nowhere", source(), limits=BatchLimits(documents=10), concurrency=2):
            outcomes.append(outcome)
    assert len(outcomes) == len(read) < 1000
    assert failed(outcomes) == [document.id for document in read]


def test_it_is_resumed_after_an_error(connect: Connect) -> None:
    written = Answer(200, {"status": "upserted", "collection": "abc", "count": 2, "ids": []})
    down = Answer(503, {"detail": "away"})
    stored: list[int] = []
    with scripted(written, down, written) as server:
        client = connect(server.url, retries=NO_RETRIES)
        limits = BatchLimits(documents=2)
        with pytest.raises(Unavailable):  # noqa: PT012 - the outcomes before the error are what this is about
            for outcome in client.ingest("abc", documents(10), limits=limits, concurrency=1):
                stored += [outcome.index] if outcome.stored else []
        assert stored == [0, 1]
        rest = list(documents(10))[len(stored) :]
        assert failed(list(client.ingest("abc", rest, limits=limits))) == []


def test_an_error_of_the_source_comes_after_what_was_read(client: Client, collection: str) -> None:
    def source() -> Iterator[NewDocument]:
        yield from documents(5)
        raise OSError("disk")

    outcomes = []
    with pytest.raises(OSError, match="disk"):  # noqa: PT012 - the outcomes before the error are what this is about
        for outcome in client.ingest(collection, source(), limits=BatchLimits(documents=2)):
            outcomes.append(outcome)
    assert len(outcomes) == 5
    assert client.get_collection(collection).count == 5


def test_a_caller_may_stop_early(client: Client, collection: str) -> None:
    for outcome in client.ingest(collection, documents(100), limits=BatchLimits(documents=5), concurrency=2):
        if outcome.index == 7:
            break
    assert (client.get_collection(collection).count or 0) < 100


def test_the_source_is_read_no_further_than_the_window(connect: Connect) -> None:
    read = 0

    def source() -> Iterator[NewDocument]:
        nonlocal read
        for document in documents(200):
            read += 1
            yield document

    ahead = 0
    taking = Taking()
    with LocalServer(taking.respond) as server:
        for outcome in connect(server.url).ingest("abc", source(), limits=BatchLimits(documents=5), concurrency=2):
            ahead = max(ahead, read - outcome.index)
    # Two batches on their way, one that is full and waits, and the document that did not fit into it.
    assert ahead <= 3 * 5 + 1


async def test_an_async_iterable_is_ingested(service: Served, collection: str) -> None:
    async def source() -> AsyncIterator[NewDocument]:
        for document in documents(12):
            await asyncio.sleep(0)
            yield document

    async with AsyncClient(service.url) as client:
        outcomes = [outcome async for outcome in client.ingest(collection, source(), limits=BatchLimits(documents=5))]
        assert failed(outcomes) == []
        assert (await client.get_collection(collection)).count == 12


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400)), max_size=40), st.integers(1, 6), st.integers(1, 900))
def test_batches_lose_nothing_and_keep_order_whatever_comes(
    sent: list[tuple[int, int]], most: int, body_bytes: int
) -> None:
    batcher = Batcher(BatchLimits(documents=most, body_bytes=body_bytes))
    made = [batcher.put(NewDocument(id=str(name), text="x" * length, embedding=[1.0])) for name, length in sent]
    batches = [batch for batch in (*made, batcher.take()) if batch]
    assert [entry.index for batch in batches for entry in batch.entries] == list(range(len(sent)))
    for batch in batches:
        assert len(batch.entries) <= most
        assert len(batch.ids) == len(batch.entries)
        assert len(batch.entries) == 1 or sum(len(entry.body) for entry in batch.entries) <= body_bytes
