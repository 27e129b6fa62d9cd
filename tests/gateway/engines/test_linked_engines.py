"""Collections of a Chroma server and of Qdrant that others fill: their records are found where they are."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
import pytest

from ragstore_client import AsyncClient
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.engine_collection import Record
from ragstore_gateway.engines.linked_collection import CollectionInfo
from ragstore_gateway.errors import CollectionReadOnly
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences
from tests.support.loop_threads import in_thread
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served

# The clients of both engines take a second of each process that collects tests: functions import them.
if TYPE_CHECKING:
    from tests.support.qdrant_server import QdrantServer

QUERY = np.array([1.0, 0.0, 0.0], np.float32)
VECTORS = {"near": [3.0, 0.3, 0.0], "middle": [1.0, 1.0, 0.0], "far": [-1.0, 0.2, 0.0]}
"""Of any length: others store what they like."""


def expected(name: str) -> float:
    """The relevance of a record to the query."""
    vector = np.array(VECTORS[name])
    return (1 + float(vector[0]) / math.sqrt(float(vector @ vector))) / 2


@pytest.fixture
async def stores() -> AsyncIterator[Engines]:
    """The engines of a gateway."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncClient("http://127.0.0.1:9", api_key=None, retries=0))
        opened = Engines(SecretReferences({"env": EnvironmentSource(environ={})}), client, 20)
        await stack.enter_async_context(opened.running())
        yield opened


@pytest.fixture(scope="module")
def memory_server() -> Iterator[QdrantServer]:
    """A server with Qdrant's interface."""
    from tests.support.qdrant_server import qdrant_server

    with in_thread(qdrant_server) as server:
        yield server


async def fill_qdrant(server: QdrantServer, distance: str) -> str:
    """A collection with the payload of a memory; its name."""
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.models import Distance, PointStruct, VectorParams

    name = f"memory-{uuid4().hex[:8]}"
    client = AsyncQdrantClient(host="127.0.0.1", grpc_port=server.port, prefer_grpc=True, check_compatibility=False)
    await client.create_collection(name, vectors_config=VectorParams(size=3, distance=Distance(distance)))
    points = [
        PointStruct(
            id=number,
            vector=vector,
            payload={"text": f"Text of {id}", "url": f"https://m.example/{id}", "chunk_ix": number, "tags": ["a"]},
        )
        for number, (id, vector) in enumerate(VECTORS.items(), 1)
    ]
    await client.upsert(name, points, wait=True)
    await client.close()
    return name


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid"])
async def test_a_memory_of_qdrant_is_searched_where_it_is(
    stores: Engines, memory_server: QdrantServer, distance: str
) -> None:
    name = await fill_qdrant(memory_server, distance)
    parameters = {"host": "127.0.0.1", "port": memory_server.port, "collection": name}
    assert await stores.open_linked("qdrant", parameters, "kb_x").describe() == CollectionInfo(3)
    opened = stores.open("qdrant", parameters, "kb_x", 3)
    found = await opened.search(QUERY, 2)
    assert [passage.text for passage in found] == ["Text of near", "Text of middle"]
    assert [passage.relevance for passage in found] == pytest.approx([expected("near"), expected("middle")], abs=1e-5)
    assert found[0].metadata == {"url": "https://m.example/near", "chunk_ix": 1}
    filtered = await opened.search(QUERY, 2, where={"chunk_ix": {"$gte": 2}})
    assert [passage.metadata["chunk_ix"] for passage in filtered] == [2, 3]
    assert [passage.id for passage in await opened.compare(QUERY, [found[1].id])] == [found[1].id]


async def test_a_collection_of_qdrant_that_does_not_exist_is_described_by_nothing(
    stores: Engines, memory_server: QdrantServer
) -> None:
    parameters = {"host": "127.0.0.1", "port": memory_server.port, "collection": "absent"}
    assert await stores.open_linked("qdrant", parameters, "kb_x").describe() is None
    assert await stores.open("qdrant", parameters, "kb_x", 3).search(QUERY, 2) == []


@pytest.fixture
@starts_process
def chroma_collection(chroma: Served) -> tuple[str, str]:
    """The address of a Chroma server, and the name of a collection that Chroma's own client has filled."""
    import chromadb

    parts = urlsplit(chroma.url)
    client = chromadb.HttpClient(host=parts.hostname or "", port=parts.port or 0)
    name = f"plain-{uuid4().hex[:8]}"
    collection = client.create_collection(name, embedding_function=None)
    collection.add(
        ids=list(VECTORS),
        embeddings=np.array(list(VECTORS.values()), np.float32),
        documents=[f"Text of {id}" for id in VECTORS],
        metadatas=[{"source": f"{id}.txt"} for id in VECTORS],
    )
    return chroma.url, name


async def test_a_collection_of_a_chroma_server_is_searched_where_it_is(
    stores: Engines, chroma_collection: tuple[str, str]
) -> None:
    url, name = chroma_collection
    parameters = {"baseUrl": url, "collection": name}
    assert await stores.open_linked("chroma", parameters, "kb_x").describe() == CollectionInfo(3)
    found = await stores.open("chroma", parameters, "kb_x", 3).search(QUERY, 3)
    assert {passage.id: passage.relevance for passage in found} == pytest.approx(
        {id: expected(id) for id in VECTORS}, abs=1e-5
    )
    assert [passage.id for passage in found] == ["near", "middle", "far"]


@pytest.mark.parametrize("engine", ["qdrant", "chroma"])
async def test_the_records_of_others_are_never_written(
    stores: Engines, memory_server: QdrantServer, chroma_collection: tuple[str, str], engine: str
) -> None:
    url, name = chroma_collection
    parameters: dict[str, object] = {"baseUrl": url, "collection": name}
    if engine == "qdrant":
        name = await fill_qdrant(memory_server, "Cosine")
        parameters = {"host": "127.0.0.1", "port": memory_server.port, "collection": name}
    opened = stores.open(engine, parameters, "kb_x", 3)
    for call in (
        opened.create(),
        opened.write([Record(str(uuid4()), "Text.", QUERY, {})]),
        opened.delete({"source": "near.txt"}),
        opened.delete_ids(["near"]),
    ):
        with pytest.raises(CollectionReadOnly):
            await call
    await opened.drop()
    assert await opened.count() == len(VECTORS)
