"""Writes that are larger than a Chroma server accepts in one request: 40 MiB."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal
from uuid import uuid4

import msgspec
import numpy as np
import pytest

from ragstore.chroma.backend import Backend
from ragstore.chroma.http.streamed_body import streamed_bodies
from ragstore.errors import ChromaFailed, TooLargeForChroma
from ragstore.model.documents import EVERYTHING, Batch, Write
from ragstore.model.large_bodies.packed_embeddings import PackedEmbeddings, pack_row
from ragstore.model.large_bodies.packed_metadata import PackedMetadata, PackedScalar, pack_metadata
from ragstore.model.large_bodies.packed_text import pack_text
from ragstore.operations.write_documents import write_batch
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, of_ids
from tests.support.fake_servers import between, listening, with_content
from tests.support.servers import Served
from tests.support.stores import exact, http_backend


@asynccontextmanager
async def started(backend: Backend) -> AsyncIterator[Store]:
    """A running store over a backend."""
    store = exact(backend)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("kind", ["add", "upsert"])
async def test_a_write_that_is_too_large_for_one_request_to_a_chroma_server_is_sent_in_several(
    kind: Literal["add", "upsert"], own_chroma: Served, name: str
) -> None:
    """A server accepts bodies of 40 MiB."""
    requests: list[tuple[str, bytes]] = []
    async with listening(between(own_chroma.url, requests)) as url, started(http_backend(url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        await write_batch(store, name, Write(kind, batch(*"abcd", text="x" * (15 * 2**20))))
        assert [head.split()[1].rpartition("/")[2] for head, body in requests if len(body) > 2**20] == [kind, kind]
        assert await store.get_ids(name, EVERYTHING) == [*"abcd"]
        assert (await store.get(name, of_ids("d"), with_embeddings=True)).embeddings.tolist() == [[4, 1]]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["add", "upsert"])
async def test_nothing_is_written_if_one_document_of_a_write_is_too_large_for_a_chroma_server(
    kind: Literal["add", "upsert"], own_chroma: Served, name: str
) -> None:
    async with started(http_backend(own_chroma.url, "store_tests")) as store:
        await store.create_collection(name, {}, "l2")
        documents = replace(batch(*"ab"), texts=["x", "x" * (41 * 2**20)])
        with pytest.raises(TooLargeForChroma):
            await write_batch(store, name, Write(kind, documents))
        assert await store.count(name) == 0


async def test_an_add_of_several_requests_is_undone_if_one_of_them_fails(own_chroma: Served, name: str) -> None:
    added: list[bytes] = []

    def fail_second(head: str, response: str, content: bytes) -> tuple[str, bytes]:
        if "/add " not in head or len(added) > 1:
            return response, content
        added.append(content)
        if len(added) < 2:
            return response, content
        error = b'{"error":"InternalError","message":"disk full"}'
        _, failed = with_content(response, content, error)
        return f"HTTP/1.1 500 Internal Server Error\r\ncontent-length: {len(error)}\r\n\r\n", failed

    async with (
        listening(between(own_chroma.url, [], change=fail_second)) as url,
        started(http_backend(url, "store_tests")) as store,
    ):
        await store.create_collection(name, {}, "l2")
        with pytest.raises(ChromaFailed):
            await add_documents(store, name, batch(*"ab", text="x" * (25 * 2**20)))
        # The proxy has passed the second request on, so its document remains; the first request's is removed.
        assert await store.get_ids(name, EVERYTHING) == ["b"]


async def test_a_write_that_a_chroma_server_does_not_accept_is_rejected_and_writes_nothing(
    own_chroma: Served,
) -> None:
    """A server accepts bodies of 40 MiB. Writes that are larger together are executed one by one."""
    store = exact(http_backend(own_chroma.url, "store_tests"))
    await store.start()
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, "l2")
    large = [Write("upsert", batch(document_id, text="x" * (15 * 2**20))) for document_id in "abc"]
    outcomes = await store.write(name, [*large, Write("upsert", batch("d", text="x" * (41 * 2**20)))])
    assert outcomes[:3] == [None, None, None]
    assert isinstance(outcomes[3], TooLargeForChroma)
    assert sorted(await store.get_ids(name, EVERYTHING)) == ["a", "b", "c"]
    await store.delete_collection(name)
    await store.close()


@pytest.mark.parametrize("kind", ["add", "upsert"])
async def test_a_large_write_is_sent_in_blocks_and_stored_as_it_is(
    kind: Literal["add", "upsert"], store: Store, name: str
) -> None:
    text = ('"\\\\\n\t\x01ä\N{SMILING FACE WITH OPEN MOUTH}' + "x" * 70_001) * 8
    written = batch(*"abc", text=text, metadata={"tags": ["a", "b"], "text": text})
    written.embeddings[:][:] = [[0.1, -3.4e38], [1e-38, 2.0], [3.0, 4.0]]
    await store.create_collection(name, {}, "l2")

    await write_batch(store, name, Write(kind, written))

    found = await store.get(name, EVERYTHING, with_embeddings=True)
    assert (found.ids, found.texts, found.metadatas) == (written.ids, written.texts, written.metadatas)
    assert found.embeddings is not None
    assert found.embeddings.tolist() == written.embeddings[:].tolist()


@pytest.mark.parametrize("kind", ["add", "upsert"])
async def test_packed_texts_and_embeddings_are_stored_as_they_are(
    kind: Literal["add", "upsert"], store: Store, name: str
) -> None:
    await write_packed(store, name, kind, 100)


async def test_large_packed_texts_are_sent_in_blocks_and_stored_as_they_are(store: Store, name: str) -> None:
    await write_packed(store, name, "upsert", 1_500_000)


async def write_packed(store: Store, name: str, kind: Literal["add", "upsert"], length: int) -> None:
    """Write documents with packed texts of some length, and read them."""
    text = '"\\\n\N{SMILING FACE WITH OPEN MOUTH}' + "x" * length
    texts: list[PackedScalar] = [text, "short"]
    metadata: PackedMetadata = {"text": text, "list": texts, "n": 1}
    rows = [[1, -2, 0.5], [0.1, -3.4e38, 1e-38], [3, 4, -0.0]]
    packed = PackedEmbeddings([pack_row(np.array(row, dtype=np.float32)) for row in rows])
    written = Batch([*"abc"], [pack_text(text)] * 3, [pack_metadata(metadata)] * 3, packed)
    await store.create_collection(name, {}, "l2")

    await write_batch(store, name, Write(kind, written))

    found = await store.get(name, EVERYTHING, with_embeddings=True)
    assert (found.ids, found.texts, found.metadatas) == ([*"abc"], [text] * 3, [metadata] * 3)
    assert found.embeddings is not None
    assert found.embeddings.tobytes() == packed[:].tobytes()


async def test_a_large_write_to_a_chroma_server_is_encoded_in_small_blocks() -> None:
    written = batch(*"abc", text="ä" * 2**20)
    embeddings = [b"\x00" * 2**18] * 3
    columns: dict[str, Sequence[object]] = {"ids": written.ids, "documents": written.texts, "embeddings": embeddings}

    bodies = await streamed_bodies(columns, may_split=False)

    blocks = [block async for block in bodies[0].blocks()]
    assert len(bodies) == 1
    assert max(map(len, blocks)) < 2**20
    assert sum(map(len, blocks)) == bodies[0].size
    sent = {"ids": written.ids, "documents": written.texts, "embeddings": [b64encode(b"\x00" * 2**18).decode()] * 3}
    assert msgspec.json.decode(b"".join(blocks)) == sent
