"""Reading a collection while other clients write to it."""

from __future__ import annotations

import struct

import msgspec
import pytest

from ragstore.transfer.failures import CollectionChanged
from ragstore.transfer.reading import pages
from ragstore.transfer.service import connect
from tests.client.fake_servers import Response, scripted_server
from tests.support.transfers import Store, document


async def test_embeddings_are_read_as_bytes() -> None:
    embedding = struct.pack("<2f", 0.1, 1.0)
    documents = [{"id": "a", "text": "x", "metadata": {}, "embedding": embedding}]
    page = msgspec.msgpack.encode({"documents": documents, "count": 1, "total": None})
    with scripted_server(Response(200, page)) as server:
        async with connect(server.url, "", 1) as service:
            (found,) = await service.page("abc", 0, 1)
    assert found.embedding == embedding
    assert server.requests[0].headers["accept"].startswith("application/msgpack")


async def test_documents_that_are_added_meanwhile_are_left_out(embedded: Store, filled: str) -> None:
    before = [each["id"] for each in embedded.listed(filled)]
    read = []
    async with connect(embedded.url, "", 120) as service:
        async for page in pages(service, await service.collection(filled), 20):
            read += [each.id for each in page]
            embedded.put(filled, {"id": f"later-{len(read)}", "text": "", "embedding": [1, 2, 3, 4]})
    assert read == before


async def test_documents_that_are_replaced_meanwhile_keep_their_position(embedded: Store, filled: str) -> None:
    before = [each["id"] for each in embedded.listed(filled)]
    read = []
    async with connect(embedded.url, "", 120) as service:
        async for page in pages(service, await service.collection(filled), 20):
            read += [each.id for each in page]
            embedded.put(filled, document(3, [9, 9, 9, 9]), document(45, [9, 9, 9, 9]))
    assert read == before


@pytest.mark.parametrize("index", [0, 19, 49])
@pytest.mark.parametrize("added", [0, 5])
async def test_a_deletion_meanwhile_is_detected_unless_every_other_document_was_read(
    embedded: Store, filled: str, index: int, added: int
) -> None:
    before = [each["id"] for each in embedded.listed(filled)]
    read: list[str] = []

    async def read_all() -> None:
        async with connect(embedded.url, "", 120) as service:
            async for page in pages(service, await service.collection(filled), 20):
                if not read:
                    embedded.http.delete(f"/collections/{filled}/documents", params={"ids": before[index]})
                    if added:
                        new = ({"id": f"new-{each}", "text": "", "embedding": [1, 2, 3, 4]} for each in range(added))
                        embedded.put(filled, *new)
                read.extend(each.id for each in page)

    if index == 49 and added:
        # It came after the documents read so far, and a new one took its position: all others are read.
        await read_all()
        assert set(before) - set(read) == {before[49]}
    else:
        with pytest.raises(CollectionChanged):
            await read_all()
