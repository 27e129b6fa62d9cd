"""The chunks that `ragstore-gateway ingest` stores: windows, ids, metadata; and those that it leaves as they are."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from uuid import NAMESPACE_URL, uuid4, uuid5

import msgspec
import numpy as np
import pytest

from ragstore_client import AsyncClient, NewDocument
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.plain_collections.index import Indexer, Text
from ragstore_gateway.plain_collections.windows import windows
from tests.support.servers import Served

pytestmark = pytest.mark.process

PARAGRAPH = "The caretaker reads the meters on the last working day of the month, and writes them into the list. "
TEXT = "\n\n".join(f"# Topic {number}\n\n{PARAGRAPH * 10}{number}." for number in range(3))
URL = "https://example.org/meters"


class Counting:
    """Embeds texts, and counts them."""

    def __init__(self) -> None:
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts."""
        self.texts += len(texts)
        return np.ones((len(texts), 4), dtype=np.float32)


@pytest.fixture
async def client(gateway: Served) -> AsyncIterator[AsyncClient]:
    """A client of the store."""
    async with AsyncClient(gateway.url) as client:
        yield client


@pytest.fixture
async def collection(client: AsyncClient) -> str:
    """An empty collection."""
    name = f"indexer-{uuid4().hex[:12]}"
    await client.create_collection(name, embedding_model="m")
    return name


def indexer(client: AsyncClient, collection: str, embedder: Counting) -> Indexer:
    """An indexer with the windows of the command."""
    return Indexer(client, collection, embedder.embed, "m", chunk_size=800, overlap=100)


async def write_as_version_0_2(client: AsyncClient, collection: str, chunks: Sequence[str]) -> None:
    """Store chunks with the content hash of version 0.2.0, which split at paragraphs."""
    content_hash = hashlib.sha256(msgspec.json.encode([TEXT, "meters", 800, 100])).hexdigest()
    await client.upsert_documents(
        collection,
        [
            NewDocument(
                id=str(uuid5(NAMESPACE_URL, f"{URL}#{index}")),
                text=chunk,
                embedding=[1.0, 0.0, 0.0, 0.0],
                metadata={"url": URL, "chunk_ix": index, "ts": 1, "source": "meters", "content_hash": content_hash},
            )
            for index, chunk in enumerate(chunks)
        ],
    )


async def test_a_text_is_stored_in_windows_with_the_ids_and_the_metadata_of_the_contract(
    client: AsyncClient, collection: str
) -> None:
    text = Text(URL, TEXT, "meters", markdown_headings(TEXT))
    indexed = await indexer(client, collection, Counting()).index(text)
    documents = sorted(
        (await client.list_documents(collection, limit=100)).documents,
        key=lambda each: int(str(each.metadata["chunk_ix"])),
    )
    assert [each.text for each in documents] == windows(TEXT, 800, 100, markdown_headings(TEXT))
    assert indexed.chunks == len(documents)
    # The overlap: a window begins within the one before.
    assert all(after.text[:40] in before.text for before, after in pairwise(documents))
    assert not any(each.text.startswith("# Topic") and len(each.text) < 100 for each in documents)
    for index, document in enumerate(documents):
        assert document.id == str(uuid5(NAMESPACE_URL, f"{URL}#{index}"))
        assert document.metadata.keys() == {"url", "chunk_ix", "ts", "source", "content_hash"}
        assert (document.metadata["url"], document.metadata["chunk_ix"]) == (URL, index)


async def test_an_unchanged_text_that_version_0_2_has_split_is_not_embedded_again(
    client: AsyncClient, collection: str
) -> None:
    before = TEXT.split("\n\n")
    await write_as_version_0_2(client, collection, before)
    embedder = Counting()
    indexed = await indexer(client, collection, embedder).index(Text(URL, TEXT, "meters"))
    assert (indexed.unchanged, indexed.chunks, embedder.texts) == (True, len(before), 0)
    changed = await indexer(client, collection, embedder).index(Text(URL, TEXT + " More.", "meters"))
    assert (changed.unchanged, embedder.texts) == (False, changed.chunks)
    assert (await client.count(collection, {"url": URL})) == changed.chunks


async def test_a_text_that_version_0_2_has_stored_in_part_is_stored_in_windows(
    client: AsyncClient, collection: str
) -> None:
    await write_as_version_0_2(client, collection, TEXT.split("\n\n")[:3])
    embedder = Counting()
    indexed = await indexer(client, collection, embedder).index(Text(URL, TEXT, "meters"))
    assert (indexed.unchanged, embedder.texts) == (False, indexed.chunks)
    again = await indexer(client, collection, embedder).index(Text(URL, TEXT, "meters"))
    assert (again.unchanged, embedder.texts) == (True, indexed.chunks)
