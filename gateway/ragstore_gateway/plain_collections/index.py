"""Indexes texts: splits them, embeds the chunks, and stores them in a collection."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import msgspec

from ragstore_client import AsyncClient, Conflict, NewDocument, Where
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.extraction.extracted import Heading
from ragstore_gateway.plain_collections.windows import windows

BATCH: Final = 256
"""Chunks that are embedded and stored with one call."""

WINDOWS: Final = "window"
"""Part of the content hash: another way to split makes other chunks."""


class OtherModel(Exception):
    """A collection holds vectors of another model."""


class EmptyText(Exception):
    """A text has no chunk."""


@dataclass(frozen=True)
class Text:
    """A text to index.

    Attributes:
        url: identifies it; indexing a text of the same URL replaces its chunks.
        source: stored with each chunk.
        headings: its headings, if known.
    """

    url: str
    text: str
    source: str
    headings: tuple[Heading, ...] = ()


@dataclass(frozen=True)
class Indexed:
    """The outcome for one text.

    Attributes:
        chunks: number of chunks that were stored.
        removed: number of chunks of an earlier, longer text that were removed.
        unchanged: whether the collection had exactly these chunks, so that nothing was embedded or stored.
    """

    chunks: int
    removed: int
    unchanged: bool = False


class Indexer:
    """Indexes texts in one collection.

    Args:
        client: the store.
        collection: the collection; it is created when it does not exist.
        embed: embeds documents.
        model: the model of `embed`.
        chunk_size: maximum number of characters of a chunk.
        overlap: maximum number of characters that a chunk repeats of the one before.
    """

    def __init__(
        self,
        client: AsyncClient,
        collection: str,
        embed: Callable[[Sequence[str]], Awaitable[Vectors]],
        model: str,
        *,
        chunk_size: int,
        overlap: int,
    ) -> None:
        self._client = client
        self._collection = collection
        self._embed = embed
        self._model = model
        self._chunk_size = chunk_size
        self._overlap = overlap

    async def open(self) -> None:
        """Create the collection, or check that its vectors are of the same model.

        Raises:
            OtherModel: they are of another model.
            RagstoreError: the store failed.
        """
        try:
            await self._client.create_collection(self._collection, embedding_model=self._model)
        except Conflict:
            found = (await self._client.get_collection(self._collection)).metadata.get("embedding_model", self._model)
            if found != self._model:
                raise OtherModel(
                    f"The collection '{self._collection}' has vectors of the model {found}, and the embedder's is "
                    f"{self._model}"
                ) from None

    async def index(self, text: Text) -> Indexed:
        """Index a text, unless the collection has it already.

        New chunks are stored first, then those of an earlier, longer text are removed.

        Raises:
            EmptyText: it has only whitespace.
            RagstoreError: the store failed.
        """
        chunks = await asyncio.to_thread(windows, text.text, self._chunk_size, self._overlap, text.headings)
        if not chunks:
            raise EmptyText("the text is empty")
        content_hash = self._content_hash(text, WINDOWS)
        kept = await self._stored(text.url, content_hash)
        if kept != len(chunks):
            kept = await self._stored_before_windows(text)
        if kept:
            return Indexed(kept, 0, unchanged=True)
        now = int(time.time())
        for first in range(0, len(chunks), BATCH):
            batch = chunks[first : first + BATCH]
            vectors = await self._embed(batch)
            documents = [
                NewDocument(
                    id=chunk_id(text.url, index),
                    text=chunk,
                    embedding=vector,
                    metadata={
                        "url": text.url,
                        "chunk_ix": index,
                        "ts": now,
                        "source": text.source,
                        "content_hash": content_hash,
                    },
                )
                for index, (chunk, vector) in enumerate(zip(batch, vectors, strict=True), first)
            ]
            await self._client.upsert_documents(self._collection, documents)
        left_over: Where = {"url": text.url, "chunk_ix": {"$gte": len(chunks)}}
        removed = await self._client.delete_documents(self._collection, where=left_over)
        return Indexed(len(chunks), removed.count)

    def _content_hash(self, text: Text, *splitting: str) -> str:
        """The hash of all that the chunks of a text depend on, but the model, which is that of the collection."""
        parts = [text.text, text.source, self._chunk_size, self._overlap, *splitting]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    async def _stored(self, url: str, content_hash: str) -> int:
        """The number of chunks of a URL, if all of them have a content hash; otherwise 0."""
        same: Where = {"url": url, "content_hash": content_hash}
        found = await self._count(same)
        return found if found and found == await self._count({"url": url}) else 0

    async def _stored_before_windows(self, text: Text) -> int:
        """The number of chunks of a text that version 0.2.0 has split, where they are complete; otherwise 0.

        It wrote them in order, so that a complete text has its end in the last chunk.
        """
        found = await self._stored(text.url, self._content_hash(text))
        if not found:
            return 0
        last: Where = {"url": text.url, "chunk_ix": found - 1}
        page = await self._client.list_documents(self._collection, where=last, limit=1)
        is_complete = bool(page.documents) and text.text.rstrip().endswith(page.documents[0].text)
        return found if is_complete else 0

    async def _count(self, where: Where) -> int:
        page = await self._client.list_documents(self._collection, where=where, limit=1, include_texts=False)
        return page.total or 0


def chunk_id(url: str, index: int) -> str:
    """The id of a chunk: the same text of the same URL has the same ids.

    Args:
        url: the URL of its text.
        index: its index in the text.
    """
    return str(uuid5(NAMESPACE_URL, f"{url}#{index}"))
