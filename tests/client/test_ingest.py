"""Bulk ingestion through both clients: any iterable, an outcome for every document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

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
from tests.client.clients import ClientFactory
from tests.client.fake_servers import FakeIngestion, LocalServer, Response, scripted_server
from tests.support.servers import Served


def documents(count: int, *, start: int = 0, dimension: int = 2) -> Iterator[NewDocument]:
    for number in range(start, start + count):
        yield NewDocument(id=f"d{number}", text=f"text {number}", embedding=[1.0, *[float(number)] * (dimension - 1)])


def failed(outcomes: list[Outcome]) -> list[str | None]:
    return [outcome.id for outcome in outcomes if not outcome.stored]


def test_every_document_is_stored_and_has_an_outcome_in_order(client: Client, client_collection: str) -> None:
    outcomes = list(client.ingest(client_collection, documents(25), limits=BatchLimits(documents=4)))
    assert [outcome.index for outcome in outcomes] == list(range(25))
    assert [outcome.id for outcome in outcomes] == [f"d{number}" for number in range(25)]
    assert failed(outcomes) == []
    assert client.get_collection(client_collection).count == 25


def test_without_documents_no_request_is_sent(make_client: ClientFactory) -> None:
    with scripted_server(Response(500)) as server:
        assert list(make_client(server.url).ingest("abc", [])) == []
    assert server.requests == []


def test_batches_respect_the_limits_of_count_and_bytes(make_client: ClientFactory) -> None:
    ingestion = FakeIngestion()
    with LocalServer(ingestion.respond) as server:
        list(make_client(server.url).ingest("abc", documents(10), limits=BatchLimits(documents=3)))
        assert sorted(ingestion.sizes) == [1, 3, 3, 3]
        list(make_client(server.url).ingest("abc", documents(10, start=10), limits=BatchLimits(body_bytes=200)))
    assert all(len(request.body) < 200 + 100 for request in server.requests[4:])
    assert sorted(ingestion.ids) == sorted(f"d{number}" for number in range(20))


def test_concurrency_limits_the_requests_in_flight(make_client: ClientFactory) -> None:
    ingestion = FakeIngestion()
    with LocalServer(ingestion.respond) as server:
        list(make_client(server.url).ingest("abc", documents(30), limits=BatchLimits(documents=1), concurrency=3))
    assert 2 <= ingestion.max_in_flight <= 3


def test_only_the_rejected_document_fails(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, [NewDocument(id="first", text="x", embedding=[1.0, 0.0])])
    mixed = [*documents(6), NewDocument(id="wrong", text="x", embedding=[1.0, 2.0, 3.0]), *documents(6, start=6)]
    outcomes = list(client.ingest(client_collection, mixed))
    assert failed(outcomes) == ["wrong"]
    assert isinstance(outcomes[6].error, BadRequest)
    assert client.get_collection(client_collection).count == 13


def test_only_the_documents_that_cannot_be_sent_fail(client: Client, client_collection: str) -> None:
    mixed = [
        NewDocument(id="nan", text="x", embedding=[1.0], metadata={"a": float("nan")}),
        NewDocument(id="surrogate", text="\ud800", embedding=[1.0]),
        NewDocument(text="without id", embedding=[1.0]),
        NewDocument(id="empty", text="x", embedding=[]),
        NewDocument(id="good", text="x", embedding=[1.0]),
    ]
    outcomes = list(client.ingest(client_collection, mixed))
    assert failed(outcomes) == ["nan", "surrogate", None, "empty"]
    assert all(isinstance(outcome.error, InvalidInput) for outcome in outcomes[:4])


def test_add_reports_existing_ids(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, documents(3, start=4))
    outcomes = list(client.ingest(client_collection, documents(10), mode="add"))
    assert failed(outcomes) == ["d4", "d5", "d6"]
    assert all(isinstance(outcome.error, Conflict) for outcome in outcomes[4:7])


def test_the_last_of_several_with_one_id_wins(client: Client, client_collection: str) -> None:
    twice = [
        NewDocument(id=f"d{number % 5}", text=f"round {number // 5}", embedding=[1.0, float(number)])
        for number in range(20)
    ]
    outcomes = list(client.ingest(client_collection, twice, limits=BatchLimits(documents=3), concurrency=4))
    assert failed(outcomes) == []
    assert {document.text for document in client.iter_documents(client_collection)} == {"round 3"}


def test_batches_shrink_to_what_the_service_accepts(make_client: ClientFactory) -> None:
    ingestion = FakeIngestion(max_documents=5)
    with LocalServer(ingestion.respond) as server:
        outcomes = list(
            make_client(server.url).ingest("abc", documents(60), limits=BatchLimits(documents=10), concurrency=1)
        )
    assert failed(outcomes) == []
    assert ingestion.sizes == [5] * 12
    assert len(server.requests) < 16


@pytest.mark.parametrize(("status", "code"), [(400, "batch_too_large"), (413, "body_too_large"), (413, None)], ids=str)
def test_a_batch_that_is_too_large_is_halved_whatever_fields_the_problem_names(
    make_client: ClientFactory, status: int, code: str | None
) -> None:
    errors = [{"path": "$.documents[0]", "message": "too many"}]
    problem = {"detail": "no", "errors": errors} | ({"code": code} if code else {})
    stored = Response(200, {"status": "upserted", "collection": "abc", "count": 4, "ids": []})
    with scripted_server(Response(status, problem), stored) as server:
        outcomes = list(make_client(server.url).ingest("abc", documents(8)))
    assert failed(outcomes) == []
    assert [len(json.loads(request.body)["documents"]) for request in server.requests] == [8, 4, 4]


def test_the_requests_that_isolate_rejected_documents_are_limited(make_client: ClientFactory) -> None:
    with scripted_server(Response(400, {"detail": "no"})) as server:
        limits = BatchLimits(documents=100, requests=10)
        outcomes = list(make_client(server.url).ingest("abc", documents(100), limits=limits))
    assert len(failed(outcomes)) == 100
    assert len(server.requests) <= 10


def test_a_missing_collection_ends_the_ingestion_with_an_outcome_for_all_documents_read(client: Client) -> None:
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


def test_an_ingestion_can_be_resumed_after_an_error(make_client: ClientFactory) -> None:
    written = Response(200, {"status": "upserted", "collection": "abc", "count": 2, "ids": []})
    down = Response(503, {"detail": "away"})
    stored: list[int] = []
    with scripted_server(written, down, written) as server:
        client = make_client(server.url, retries=NO_RETRIES)
        limits = BatchLimits(documents=2)
        with pytest.raises(Unavailable):  # noqa: PT012 - the outcomes before the error are what this is about
            for outcome in client.ingest("abc", documents(10), limits=limits, concurrency=1):
                stored += [outcome.index] if outcome.stored else []
        assert stored == [0, 1]
        rest = list(documents(10))[len(stored) :]
        assert failed(list(client.ingest("abc", rest, limits=limits))) == []


def test_an_error_of_the_source_is_raised_after_the_documents_read(client: Client, client_collection: str) -> None:
    def source() -> Iterator[NewDocument]:
        yield from documents(5)
        raise OSError("disk")

    outcomes = []
    with pytest.raises(OSError, match="disk"):  # noqa: PT012 - the outcomes before the error are what this is about
        for outcome in client.ingest(client_collection, source(), limits=BatchLimits(documents=2)):
            outcomes.append(outcome)
    assert len(outcomes) == 5
    assert client.get_collection(client_collection).count == 5


def test_a_caller_may_stop_early(client: Client, client_collection: str) -> None:
    for outcome in client.ingest(client_collection, documents(100), limits=BatchLimits(documents=5), concurrency=2):
        if outcome.index == 7:
            break
    assert (client.get_collection(client_collection).count or 0) < 100


def test_the_source_is_not_read_ahead_of_the_requests_in_flight(make_client: ClientFactory) -> None:
    read = 0

    def source() -> Iterator[NewDocument]:
        nonlocal read
        for document in documents(200):
            read += 1
            yield document

    ahead = 0
    ingestion = FakeIngestion()
    with LocalServer(ingestion.respond) as server:
        for outcome in make_client(server.url).ingest("abc", source(), limits=BatchLimits(documents=5), concurrency=2):
            ahead = max(ahead, read - outcome.index)
    # Two batches in flight, one that is full and waits, and the document that did not fit into it.
    assert ahead <= 3 * 5 + 1


async def test_an_async_iterable_is_ingested(client_service: Served, client_collection: str) -> None:
    async def source() -> AsyncIterator[NewDocument]:
        for document in documents(12):
            await asyncio.sleep(0)
            yield document

    async with AsyncClient(client_service.url) as client:
        outcomes = [
            outcome async for outcome in client.ingest(client_collection, source(), limits=BatchLimits(documents=5))
        ]
        assert failed(outcomes) == []
        assert (await client.get_collection(client_collection)).count == 12


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400)), max_size=40), st.integers(1, 6), st.integers(1, 900))
def test_batches_keep_all_documents_in_order(sent: list[tuple[int, int]], max_documents: int, body_bytes: int) -> None:
    batcher = Batcher(BatchLimits(documents=max_documents, body_bytes=body_bytes))
    made = [batcher.add(NewDocument(id=str(name), text="x" * length, embedding=[1.0])) for name, length in sent]
    batches = [batch for batch in (*made, batcher.flush()) if batch]
    assert [entry.index for batch in batches for entry in batch.entries] == list(range(len(sent)))
    for batch in batches:
        assert len(batch.entries) <= max_documents
        assert len(batch.ids) == len(batch.entries)
        assert len(batch.entries) == 1 or sum(len(entry.body) for entry in batch.entries) <= body_bytes
