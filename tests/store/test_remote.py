"""The HTTP backend when Chroma, or a proxy in front of it, behaves badly."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from ragstore.chroma.backend import Backend
from ragstore.errors import (
    ChromaFailed,
    ChromaTimeout,
    ChromaUnavailable,
    CollectionNotFound,
    DocumentsExist,
)
from ragstore.model.documents import EVERYTHING
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, make_query, upsert_documents
from tests.support.fake_servers import answering, between, listening, read_message, with_content
from tests.support.servers import Served, free_port, running, start_chroma
from tests.support.stores import TENANT, exact, http_backend, with_retries


@asynccontextmanager
async def started(backend: Backend) -> AsyncIterator[Store]:
    """A running store over a backend."""
    store = exact(backend)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "status": lambda store: store.status(),
    "get_collection": lambda store: store.get_collection("some-name"),
    "create_collection": lambda store: store.create_collection("some-name", {}, "l2"),
    "add": lambda store: add_documents(store, "some-name", batch("a")),
    "get": lambda store: store.get("some-name", EVERYTHING),
    "query": lambda store: store.query("some-name", [make_query(1, 2)]),
}


@pytest.mark.parametrize("call", CALLS)
async def test_an_unreachable_chroma_is_reported_without_delay(call: str) -> None:
    async with started(http_backend(f"http://127.0.0.1:{free_port()}", "store_tests")) as store:
        began = time.monotonic()
        with pytest.raises(ChromaUnavailable, match="cannot be reached"):
            await CALLS[call](store)
        assert time.monotonic() - began < 8


async def test_a_name_that_does_not_resolve_is_unavailable() -> None:
    async with started(http_backend("http://chroma.invalid:8000", "store_tests")) as store:
        with pytest.raises(ChromaUnavailable):
            await store.status()


@pytest.mark.parametrize("call", CALLS)
async def test_a_server_that_never_responds_is_a_timeout(call: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as url, started(http_backend(url, "store_tests", timeout=0.2)) as store:
        began = time.monotonic()
        with pytest.raises(ChromaTimeout):
            await CALLS[call](store)
        assert time.monotonic() - began < 8


async def test_a_response_that_stalls_is_a_timeout() -> None:
    async def stalling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"max')
        await reader.read()

    async with listening(stalling) as url, started(http_backend(url, "store_tests", timeout=0.2)) as store:
        with pytest.raises(ChromaTimeout):
            await store.status()


@pytest.mark.parametrize(
    ("status", "content"),
    [
        ("200 OK", b"<html>Welcome</html>"),
        ("200 OK", b""),
        ("200 OK", b"\xff\xfe"),
        ("200 OK", b'{"unexpected": true}'),
        ("200 OK", b"[" * 100_000),
        ("200 OK", b'{"max_batch_size": 1, "more": ' + b"[" * 100_000),
        ("500 Internal Server Error", b'{"more": ' + b"[" * 100_000),
        ("500 Internal Server Error", b"<html>Oops</html>"),
        ("500 Internal Server Error", b'{"error": 1, "message": []}'),
        ("404 Not Found", b"nothing here"),
        ("302 Found", b""),
        ("401 Unauthorized", b'{"error": "AuthError", "message": "secret-token is wrong"}'),
    ],
)
async def test_an_unreadable_response_is_a_failure_whose_message_repeats_none_of_it(
    status: str, content: bytes
) -> None:
    async with listening(answering(status, content)) as url, started(http_backend(url, "store_tests")) as store:
        with pytest.raises(ChromaFailed) as failed:
            await store.status()
        assert "secret" not in failed.value.detail
        assert "html" not in failed.value.detail


async def test_a_response_that_is_no_http_is_unavailable_or_failed() -> None:
    async def not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()

    async with listening(not_http) as url, started(http_backend(url, "store_tests")) as store:
        with pytest.raises((ChromaFailed, ChromaUnavailable)):
            await store.status()


@pytest.mark.parametrize("status", ["429 Too Many Requests", "502 Bad Gateway", "503 Service Unavailable"])
async def test_a_busy_chroma_is_unavailable(status: str) -> None:
    async with listening(answering(status, b"")) as url, started(http_backend(url, "store_tests")) as store:
        with pytest.raises(ChromaUnavailable) as refused:
            await store.status()
        assert refused.value.retry_after


async def test_headers_are_sent_with_every_request(chroma: Served) -> None:
    seen: list[tuple[str, bytes]] = []
    headers = {"Authorization": "Bearer secret", "X-Chroma-Token": "secret"}
    async with (
        listening(between(chroma.url, seen)) as url,
        started(http_backend(url, "headers_tests", headers=headers, connections=1)) as store,
    ):
        await store.status()
        with pytest.raises(CollectionNotFound):
            await store.get("some-name", EVERYTHING)
    assert len(seen) > 3
    for head, _ in seen:
        assert "authorization: bearer secret" in head.lower()
        assert "x-chroma-token: secret" in head.lower()


async def test_embeddings_are_written_as_base64(chroma: Served, name: str) -> None:
    seen: list[tuple[str, bytes]] = []
    async with listening(between(chroma.url, seen)) as url, started(http_backend(url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        await add_documents(store, name, batch("a", "b"))
        found = await store.get(name, EVERYTHING, with_embeddings=True)
        await store.delete_collection(name)
    [body] = [body for head, body in seen if "/add " in head]
    assert msgspec.json.decode(body)["embeddings"] == ["AACAPwAAgD8=", "AAAAQAAAgD8="]
    assert found.embeddings is not None
    assert np.array_equal(found.embeddings, [[1, 1], [2, 1]])


async def operations_of(chroma: Served, name: str, work: Callable[[Store], Awaitable[object]]) -> list[str]:
    """The requests about a collection's records, once the collection is cached."""
    seen: list[tuple[str, bytes]] = []
    async with listening(between(chroma.url, seen)) as url, started(http_backend(url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        await add_documents(store, name, batch("first"))
        await store.count(name)
        seen.clear()
        await work(store)
        return [head.split(" ")[1].rpartition("/")[2] for head, _ in seen]


async def test_an_add_of_one_document_is_written_and_its_write_token_is_read_back(chroma: Served, name: str) -> None:
    assert await operations_of(chroma, name, lambda store: add_documents(store, name, batch("a"))) == ["add", "get"]


async def test_an_add_of_several_documents_is_looked_up_first(chroma: Served, name: str) -> None:
    assert await operations_of(chroma, name, lambda store: add_documents(store, name, batch("a", "b"))) == [
        "get",
        "add",
        "get",
    ]


async def test_the_rejection_of_an_add_of_one_document_names_its_index(chroma: Served, name: str) -> None:
    async with started(http_backend(chroma.url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        await upsert_documents(store, name, batch("a"))
        with pytest.raises(DocumentsExist) as refusal:
            await add_documents(store, name, batch("a"))
        assert (refusal.value.ids, [problem.path for problem in refusal.value.field_errors]) == (
            ("a",),
            ["$.documents[0].id"],
        )


async def test_a_deletion_whose_response_is_lost_is_retried_and_succeeds(chroma: Served, name: str) -> None:
    lost: list[str] = []

    def lose(head: str, response: str, content: bytes) -> tuple[str, bytes] | None:
        if head.startswith("DELETE") and not lost:
            lost.append(response)
            return None
        return response, content

    async with (
        listening(between(chroma.url, [], change=lose)) as url,
        started(with_retries(http_backend(url, "store_tests"))) as store,
    ):
        await store.create_collection(name, {}, "l2")
        await store.delete_collection(name)
        with pytest.raises(CollectionNotFound):
            await store.get_collection(name)
        with pytest.raises(CollectionNotFound):
            await store.delete_collection(name)
    assert " 200 " in lost[0]


async def test_a_query_that_found_a_document_which_was_then_deleted_is_retried(chroma: Served, name: str) -> None:
    """Chroma's server returns the document with neither text nor metadata. The race is simulated here."""
    queries: list[bytes] = []

    def race(head: str, response: str, content: bytes) -> tuple[str, bytes]:
        if "/query " not in head:
            return response, content
        queries.append(content)
        if len(queries) > 1:
            return response, content
        found = msgspec.json.decode(content)
        raced = msgspec.json.encode(found | {"ids": [["gone"]], "documents": [[None]], "metadatas": [[None]]})
        return with_content(response, content, raced)

    async with listening(between(chroma.url, [], change=race)) as url:
        store = exact(with_retries(http_backend(url, "store_tests")))
        await store.start()
        try:
            await store.create_collection(name, {}, "l2")
            await add_documents(store, name, batch("a"))
            assert (await store.query(name, [make_query(1, 2)])).matches[0].ids == ["a"]
        finally:
            await store.close()
    assert len(queries) == 2


async def test_a_record_without_text_and_metadata_is_found(chroma: Served, name: str) -> None:
    async with started(http_backend(chroma.url, "store_tests")) as store:
        made = await store.create_collection(name, {}, "l2")
        async with httpx.AsyncClient(base_url=chroma.url) as client:
            path = f"/api/v2/tenants/{TENANT}/databases/store_tests/collections/{made.id}/add"
            (await client.post(path, json={"ids": ["bare"], "embeddings": [[1, 2]]})).raise_for_status()
        [hits] = (await store.query(name, [make_query(1, 2)])).matches
        assert (hits.ids, hits.texts, hits.metadatas) == (["bare"], [""], [{}])


COLUMNS: dict[str, Callable[[Store, str], Awaitable[object]]] = {
    "documents": lambda store, name: store.get(name, EVERYTHING),
    "metadatas": lambda store, name: store.get(name, EVERYTHING),
    "embeddings": lambda store, name: store.get(name, EVERYTHING, with_embeddings=True),
    "distances": lambda store, name: store.query(name, [make_query(1, 2)]),
    "uris": lambda store, name: add_documents(store, name, batch("c")),
}
"""Calls that read each column of Chroma's responses."""

DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "its name garbled": lambda content, column: content.replace(column, b"\xff" * len(column)),
    "empty": lambda content, column: content.replace(b'"%s":[' % column, b'"%s":[],"x":[' % column),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_response_that_lacks_a_column_is_a_failure(chroma: Served, name: str, column: str, damage: str) -> None:
    def damaged(head: str, response: str, content: bytes) -> tuple[str, bytes]:
        return with_content(response, content, DAMAGES[damage](content, column.encode()))

    async with started(http_backend(chroma.url, "store_tests")) as direct:
        await direct.create_collection(name, {}, "l2")
        await add_documents(direct, name, batch("a", "b"))
    async with (
        listening(between(chroma.url, [], change=damaged)) as url,
        started(http_backend(url, "store_tests")) as store,
    ):
        with pytest.raises(ChromaFailed):
            await COLUMNS[column](store, name)


async def test_the_tenant_and_the_database_are_created_when_they_do_not_exist(chroma: Served, name: str) -> None:
    async with (
        started(http_backend(chroma.url, f"db-{name}")) as store,
        started(http_backend(chroma.url, f"db-{name}")) as other,
    ):
        both = await asyncio.gather(store.status(), other.status())
        assert [status.collections_count for status in both] == [0, 0]
        await store.create_collection(name, {}, "l2")
        assert (await other.get_collection(name)).name == name


async def test_databases_do_not_see_each_other(chroma: Served, name: str) -> None:
    async with (
        started(http_backend(chroma.url, f"one-{name}")) as store,
        started(http_backend(chroma.url, f"two-{name}")) as other,
    ):
        await store.create_collection(name, {}, "l2")
        with pytest.raises(CollectionNotFound):
            await other.get_collection(name)
        assert await other.list_collections(None, 0) == []


@pytest.mark.parametrize("requests", [1, 2, 3])
async def test_connections_that_chroma_closes_between_calls_are_replaced(
    chroma: Served, name: str, requests: int
) -> None:
    async with started(http_backend(chroma.url, "store_tests")) as direct:
        await direct.create_collection(name, {}, "l2")
    proxy = between(chroma.url, [], requests_a_connection=requests)
    backend = functools.partial(http_backend, database="store_tests", connections=2)
    async with listening(proxy) as url, started(with_retries(backend(url))) as store:
        for index in range(10):
            await upsert_documents(store, name, batch(f"a{index}"))
            assert await store.count(name) == index + 1
            assert len((await store.query(name, [make_query(1, 2, top_k=1)])).matches[0].ids) == 1
        await add_documents(store, name, batch("b", "c"))
        assert (await store.status()).collections_count
        await store.delete_collection(name)


@pytest.mark.process
async def test_a_store_that_starts_before_chroma_works_once_chroma_does(tmp_path: Path, name: str) -> None:
    port = free_port()
    async with started(http_backend(f"http://127.0.0.1:{port}", "store_tests")) as store:
        with pytest.raises(ChromaUnavailable):
            await store.status()
        with running(await asyncio.to_thread(start_chroma, tmp_path, port)):
            await store.create_collection(name, {}, "l2")
            await add_documents(store, name, batch("a"))
            assert await store.count(name) == 1


@pytest.mark.process
async def test_a_store_works_again_once_chroma_is_back(tmp_path: Path, name: str) -> None:
    chroma = await asyncio.to_thread(start_chroma, tmp_path)
    port = int(chroma.url.rpartition(":")[2])
    async with started(http_backend(chroma.url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        await add_documents(store, name, batch("a"))
        await asyncio.to_thread(chroma.stop)
        with pytest.raises(ChromaUnavailable):
            await store.get(name, EVERYTHING)
        with running(await asyncio.to_thread(start_chroma, tmp_path, port)):
            assert (await store.get(name, EVERYTHING)).ids == ["a"]
            await add_documents(store, name, batch("b"))


@pytest.mark.process
async def test_the_tenant_and_the_database_are_created_again_when_chroma_has_lost_them(
    tmp_path: Path, name: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    chroma = await asyncio.to_thread(start_chroma, first)
    port = int(chroma.url.rpartition(":")[2])
    async with started(http_backend(chroma.url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        await add_documents(store, name, batch("a"))
        await asyncio.to_thread(chroma.stop)
        with running(await asyncio.to_thread(start_chroma, second, port)):
            with pytest.raises(CollectionNotFound):
                await store.get(name, EVERYTHING)
            await store.create_collection(name, {}, "l2")
            await add_documents(store, name, batch("b"))
            assert (await store.get(name, EVERYTHING)).ids == ["b"]
