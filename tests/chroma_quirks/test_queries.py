"""Vectors, and queries by them."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import aiohttp
import httpx
import msgspec
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.errors import InternalError

from tests.chroma_quirks.bare import DATABASE_PATH, Space, new_collection, run_program
from tests.chroma_quirks.quirk import Quirk, shows
from tests.support.servers import Served

ATTEMPT_SECONDS: Final = 20.0
"""How long a race is tried at most."""

JSON: Final = {"Content-Type": "application/json"}


@shows(
    Quirk(
        name="unreachable-documents",
        summary=(
            "Documents that are stored are found by no query, not even by their own embedding with a filter on "
            "their own id: the HNSW graph has no path to them. Seen with `l2` and `ip` embeddings of differing "
            "lengths, many equal embeddings, and after replacements and deletions."
        ),
        workaround=(
            "Filters that few documents match are run exactly, short results are completed exactly, and what the index "
            "lacks in a small collection is added. "
            "[A reproduction](#unreachable-documents) needs only Chroma."
        ),
        works_around=("ragstore.chroma.exact_search", "ragstore.chroma.search", "ragstore.store.embedding_memory"),
        upstream=(
            "#7758: Live records become unreachable by query() after deletes and upserts while get() still returns "
            "them (1.5.9)"
        ),
    )
)
def test_documents_are_not_found_by_their_own_embedding(client: ClientAPI) -> None:
    drawn = np.random.default_rng(0)
    directions = drawn.normal(size=(400, 384))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    embeddings = (directions * drawn.lognormal(0.0, 0.3, size=(400, 1))).astype(np.float32)
    ids = [str(number) for number in range(400)]
    collection = new_collection(client, "l2")
    collection.add(ids=ids, embeddings=embeddings, metadatas=[{"own": key} for key in ids])
    found = 0
    for key, embedding in zip(ids, embeddings, strict=True):
        answer = collection.query(query_embeddings=[embedding], n_results=1, where={"own": key})
        found += answer["ids"] == [[key]]
    assert found <= 380, f"{400 - found} of 400 documents are unreachable; 127 to 173 were"


@shows(
    Quirk(
        name="queries-by-unknown-ids",
        summary="A query by ids fails with an internal error if one of them is not stored. A get ignores such an id.",
        workaround="It is repeated with the filter that selected the ids.",
        works_around=("ragstore.chroma.errors:RecordGone", "ragstore.chroma.search"),
    )
)
def test_a_query_by_an_id_that_is_not_stored_fails(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.add(ids=["a", "b"], embeddings=[[1.0, 0.0], [0.0, 1.0]])
    assert collection.query(query_embeddings=[[1.0, 0.0]], ids=["b"])["ids"] == [["b"]]
    assert collection.get(ids=["b", "gone"])["ids"] == ["b"]
    with pytest.raises(InternalError, match="Error finding id"):
        collection.query(query_embeddings=[[1.0, 0.0]], ids=["b", "gone"])


@shows(
    Quirk(
        name="cosine-embeddings-change",
        summary=(
            "Embeddings of cosine collections are divided by their length and multiplied by it again, in float32: "
            "they come back changed in the last digits."
        ),
        workaround="Copies compare embeddings of cosine collections within 1e-6.",
        works_around=("ragstore.transfer.documents:COSINE_TOLERANCE",),
    )
)
def test_embeddings_of_cosine_collections_come_back_changed(client: ClientAPI) -> None:
    embeddings = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    collection = new_collection(client, "cosine")
    collection.add(ids=[str(number) for number in range(100)], embeddings=embeddings)
    found = np.asarray(collection.get(include=["embeddings"])["embeddings"], dtype=np.float32)
    assert (found != embeddings).any()
    assert np.allclose(found, embeddings, rtol=1e-6)


@shows(
    Quirk(
        name="cosine-loses-extreme-lengths",
        summary="A cosine collection keeps embeddings shorter than about 1e-19 as zero, and longer than 1.8e19 as NaN.",
        workaround="Such embeddings are 400 in a cosine collection.",
        works_around=("ragstore.model.vectors:has_lost_norm",),
    )
)
def test_a_cosine_collection_loses_embeddings_of_extreme_lengths(client: ClientAPI) -> None:
    collection = new_collection(client, "cosine")
    collection.add(ids=["short", "long"], embeddings=[[1e-30, 0.0], [1e20, 0.0]])
    found = collection.get(include=["embeddings"])["embeddings"]
    assert found is not None
    short, long = found
    assert list(short) == [0.0, 0.0]
    assert all(number is None or math.isnan(number) for number in long)


@shows(
    Quirk(
        name="cosine-queries-of-extreme-lengths",
        summary=(
            "Queries of a cosine collection by a vector shorter than 1e-18 or longer than 1e19 have meaningless "
            "distances."
        ),
        workaround="None yet.",
        works_around=(),
    )
)
def test_a_cosine_query_by_a_vector_of_extreme_length_has_a_meaningless_distance(client: ClientAPI) -> None:
    collection = new_collection(client, "cosine")
    collection.add(ids=["same direction"], embeddings=[[1.0, 0.0]])
    ((short,), (long,)) = collection.query(query_embeddings=[[1e-30, 0.0], [2e19, 0.0]])["distances"]
    assert short == pytest.approx(-99.0)
    assert long == pytest.approx(1.0)


@shows(
    Quirk(
        name="distances-beyond-float32",
        summary="A distance too large for float32 is null over HTTP, and infinity or NaN from embedded Chroma.",
        workaround="It becomes the largest float32, and results are sorted again.",
        works_around=("ragstore.chroma.records:query_results", "ragstore.chroma.search:_hits"),
    )
)
@pytest.mark.parametrize("space", ["l2", "ip"])
def test_a_distance_beyond_float32_is_no_number(client: ClientAPI, space: Space) -> None:
    collection = new_collection(client, space)
    collection.add(ids=["far"], embeddings=[[3e38, 3e38]])
    ((distance,),) = collection.query(query_embeddings=[[-3e38, 3e38]])["distances"]
    assert distance is None or not math.isfinite(distance)


@shows(
    Quirk(
        name="no-base64-in-queries",
        summary="The server takes embeddings as base64 in writes, and not in queries.",
        workaround="Query vectors are sent as JSON numbers.",
        works_around=("ragstore.chroma.http.backend:_query_records",),
        stores=("server",),
    )
)
def test_a_query_vector_as_base64_is_refused(client: ClientAPI, http: httpx.Client) -> None:
    collection = new_collection(client)
    vector = base64.b64encode(np.array([1.0, 0.0], dtype="<f4").tobytes()).decode()
    written = http.post(f"/collections/{collection.id}/upsert", json={"ids": ["a"], "embeddings": [vector]})
    queried = http.post(f"/collections/{collection.id}/query", json={"query_embeddings": [vector], "n_results": 1})
    assert (written.status_code, queried.status_code) == (200, 422)


@shows(
    Quirk(
        name="distance-of-old-collections",
        summary=(
            "A collection that Chroma 0.5 or 0.6 made with `hnsw:space` in its metadata has a configuration that "
            "says `l2`, while queries compute the distance of the metadata."
        ),
        workaround="None yet: the configuration is believed.",
        works_around=(),
        upstream="#2638: Confusion regarding the HNSW config (closed)",
    )
)
def test_the_configuration_of_an_old_collection_says_another_distance_than_it_has(tmp_path: Path) -> None:
    """The server shares the code. An old collection is made by taking from a new one what 0.6 did not write."""
    run_program(
        """
        collection = client.create_collection("old", metadata={"hnsw:space": "cosine"}, embedding_function=None)
        collection.add(ids=["a"], embeddings=[[1.0, 0.0]])
        """,
        tmp_path,
    )
    with closing(sqlite3.connect(tmp_path / "chroma.sqlite3")) as database, database:
        database.execute("UPDATE collections SET schema_str = NULL, config_json_str = '{}'")
        database.execute(
            "INSERT INTO segment_metadata (segment_id, key, str_value) "
            "SELECT id, 'hnsw:space', 'cosine' FROM segments WHERE scope = 'VECTOR'"
        )
    printed = run_program(
        """
        collection = client.get_collection("old", embedding_function=None)
        (distance,) = collection.query(query_embeddings=[[5.0, 0.0]])["distances"][0]
        print(collection.configuration_json["hnsw"]["space"], distance)
        """,
        tmp_path,
    )
    assert printed.split() == ["l2", "0.0"], "of l2 the distance would be 16"


Body = dict[str, object]


async def until_seen(calls: list[Callable[[], Awaitable[bool]]]) -> bool:
    """Make calls concurrently, each again and again, until one has seen what it looks for."""
    end = time.monotonic() + ATTEMPT_SECONDS
    seen = asyncio.Event()

    async def repeat(call: Callable[[], Awaitable[bool]]) -> None:
        while not seen.is_set() and time.monotonic() < end:
            if await call():
                seen.set()

    await asyncio.gather(*(repeat(call) for call in calls))
    return seen.is_set()


class Answer(msgspec.Struct):
    """The parts of a query result that are compared."""

    documents: list[list[str | None]]
    distances: list[list[float | None]]


@shows(
    Quirk(
        name="torn-reads",
        summary=(
            "The server reads embeddings and the rest one after the other. A get or query beside an upsert of the "
            "same id mixes two writes: 146 of 4,000 gets, 133 of 2,000 queries."
        ),
        workaround="What was written meanwhile is read again; after three attempts while writes wait.",
        works_around=("ragstore.chroma.layers.consistent_reads",),
        stores=("server",),
    )
)
async def test_a_query_beside_upserts_mixes_two_of_them(server: Served) -> None:
    async with aiohttp.ClientSession(server.url, headers=JSON) as session:
        path = await _new_path(session)
        writes = [{"ids": ["a"], "embeddings": [[value, 0]], "documents": [str(value)]} for value in range(1, 50)]
        bodies = [json.dumps(write).encode() for write in writes]
        numbers = iter(range(10**9))
        await _post(session, f"{path}/upsert", bodies[0])

        async def write() -> bool:
            await _post(session, f"{path}/upsert", bodies[next(numbers) % len(bodies)])
            return False

        async def read() -> bool:
            query: Body = {"query_embeddings": [[0, 0]], "n_results": 1, "include": ["documents", "distances"]}
            _, content = await _post(session, f"{path}/query", json.dumps(query).encode())
            answer = msgspec.json.decode(content, type=Answer)
            text, distance = answer.documents[0][0], answer.distances[0][0]
            return text is not None and distance is not None and float(text) ** 2 != distance

        assert await until_seen([write, read, read, read])


@shows(
    Quirk(
        name="reads-beside-deletes",
        summary=(
            "A query beside a delete returns documents with neither text nor metadata (11 of 4,578 on the server); "
            "a get with embeddings fails with an internal error."
        ),
        workaround="Such a query counts as failed, and such reads are repeated.",
        works_around=("ragstore.chroma.http.responses:bare_ids", "ragstore.chroma.layers.retries"),
        stores=("server",),
    )
)
async def test_a_read_beside_a_delete_returns_less_than_a_document_or_fails(server: Served) -> None:
    ids = [str(number) for number in range(20)]
    documents: Body = {
        "ids": ids,
        "embeddings": [[1, number] for number in range(20)],
        "documents": ids,
        "metadatas": [{"n": 1}] * 20,
    }
    async with aiohttp.ClientSession(server.url, headers=JSON) as session:
        path = await _new_path(session)
        await _post(session, f"{path}/upsert", json.dumps(documents).encode())

        async def replace() -> bool:
            await _post(session, f"{path}/delete", json.dumps({"ids": ids}).encode())
            await _post(session, f"{path}/upsert", json.dumps(documents).encode())
            return False

        async def query() -> bool:
            body: Body = {"query_embeddings": [[1, 1]], "n_results": 20, "include": ["documents", "distances"]}
            status, content = await _post(session, f"{path}/query", json.dumps(body).encode())
            return status == 200 and None in msgspec.json.decode(content, type=Answer).documents[0]

        async def get() -> bool:
            status, _ = await _post(session, f"{path}/get", b'{"include": ["documents", "embeddings"]}')
            return status == 500

        assert await until_seen([replace, query, query, get])


async def _new_path(session: aiohttp.ClientSession) -> str:
    """Make a collection; its path."""

    class Created(msgspec.Struct):
        id: str

    name = f"race-{time.monotonic_ns()}"
    _, content = await _post(session, f"{DATABASE_PATH}/collections", json.dumps({"name": name}).encode())
    return f"{DATABASE_PATH}/collections/{msgspec.json.decode(content, type=Created).id}"


async def _post(session: aiohttp.ClientSession, path: str, body: bytes) -> tuple[int, bytes]:
    async with session.post(path, data=body) as answer:
        return answer.status, await answer.read()
