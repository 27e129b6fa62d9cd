"""`StoredSources`: ingests the sources of a summary into a knowledge base."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore.kit.context import record_batch
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.kept_text import KEPT_TEXT, KeptText, headings_of, pages_of
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.names import name_of_url
from ragstore_gateway.ingestion.transactions import COMPLETED, UNFINISHED

WAIT_SECONDS: Final = 10.0
"""How long a response waits for ingestions that were accepted before the model was called."""

POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source that is being ingested.

    Attributes:
        ingestion_id: id of the ingestion.
        chunks: number of its chunks; None as long as it is not complete.
    """

    ingestion_id: str
    chunks: int | None = None


class StoredSources:
    """Ingests sources.

    Args:
        bases: the knowledge bases.
        ingestion: ingests documents.
    """

    def __init__(self, bases: Configurations[KnowledgeBase], ingestion: Ingestion) -> None:
        self._bases = bases
        self._ingestion = ingestion

    async def base_id(self, name: str, visible: NamePatterns) -> str:
        """The id of a knowledge base that takes documents.

        Args:
            visible: the names of the bases that exist for the caller.

        Raises:
            CollectionReadOnly: it takes no documents.
            DatabaseUnavailable: the database cannot be used.
            InvalidRequest: there is no such base.
            ServiceError: its collection cannot be used.
        """
        base = await self._bases.find_by_name(name) if visible.matches(name) else None
        if base is None:
            raise InvalidRequest.at("$.collection", "There is no knowledge base of this name")
        await self._ingestion.linked.prepare(base.id)
        return base.id

    async def ingest(self, base_id: str, url: str, extracted: Extracted) -> StoredSource:
        """Accept a source. It replaces the document of its URL.

        Args:
            base_id: the knowledge base.
            url: its URL; empty for a text, which is named by its hash.
            extracted: its text.

        Raises:
            ConfigurationNotFound: there is no such base any more.
            DatabaseUnavailable: the database cannot be used.
            QueueFull: too many ingestions have not ended.
        """
        name = name_of_url(url) if url else f"text:{hashlib.sha256(extracted.text.encode()).hexdigest()[:16]}"
        record_batch(f"ragstore/rags/{base_id}/documents", 1)
        kept = KeptText(
            text=extracted.text,
            type=extracted.media_type,
            title=extracted.title,
            language=extracted.language,
            published=extracted.published,
            pages=pages_of(extracted),
            headings=headings_of(extracted),
        )
        content = NewContent(name, KEPT_TEXT, msgspec.json.encode(kept), "")
        return StoredSource((await self._ingestion.ingest(base_id, content)).id)

    async def ended(self, base_id: str, sources: Sequence[StoredSource]) -> list[StoredSource]:
        """The sources with their numbers of chunks, as far as their ingestions end in time.

        Args:
            base_id: the knowledge base.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_SECONDS
        while True:
            rows = [await self._ingestion.documents.ingestion(base_id, each.ingestion_id) for each in sources]
            if all(row.state not in UNFINISHED for row in rows) or loop.time() >= deadline:
                return [StoredSource(row.id, row.chunks if row.state == COMPLETED else None) for row in rows]
            await asyncio.sleep(POLL_SECONDS)
