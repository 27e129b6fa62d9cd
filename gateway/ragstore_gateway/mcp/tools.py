"""`Tools`: what agents can call. Each tool is one call of the services behind the gateway's routes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from msgspec import UNSET

from ragstore.filters import where as language
from ragstore.kit.context import record_write
from ragstore.kit.errors import Forbidden, InvalidRequest
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.engines.engine_collection import DOCUMENT_NAME_KEY, OWNER_KEY, REVISION_KEY, Passage
from ragstore_gateway.errors import DocumentNotFound, PassageNotFound, RetrievalFailed
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.document_metadata import filled_metadata
from ragstore_gateway.ingestion.names import checked_name
from ragstore_gateway.ingestion.schemas import status_of
from ragstore_gateway.ingestion.transactions import UNFINISHED
from ragstore_gateway.mcp.caller import McpCaller
from ragstore_gateway.mcp.documents import PAGE, VisibleDocuments, permits
from ragstore_gateway.mcp.rag_chat import RagChat
from ragstore_gateway.mcp.resources import resource_uri
from ragstore_gateway.mcp.schemas import (
    MAX_BASES,
    Answer,
    Ask,
    BaseEntries,
    BaseEntry,
    Fetch,
    FetchedDocument,
    FoundPassage,
    FoundPassages,
    ListBases,
    ListDocuments,
    ListedDocument,
    ListedDocuments,
    Remember,
    Remembered,
    Search,
)
from ragstore_gateway.retrieval.passage_address import passage_path
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import CHARACTERS_PER_TOKEN, BaseQuery, BaseResult, KnowledgeRetriever
from ragstore_gateway.retrieval.source_names import SourceName
from ragstore_gateway.retrieval.source_prompt import without_repetitions

MAX_PASSAGE: Final = 20_000
"""Maximum number of characters of a passage that `search` returns; a longer one is cut."""

WAIT_SECONDS: Final = 30.0
"""How long `remember` waits until searches find the text."""

POLL_SECONDS: Final = 0.2

_INTERNAL: Final = frozenset({OWNER_KEY, REVISION_KEY})
_GONE: Final = "There is no such passage any more: search again"

Progress: TypeAlias = Callable[[float], Awaitable[None]]
"""Reports the progress of a call, from 0 to 1."""


class Tools:
    """The tools.

    Args:
        bases: the knowledge bases.
        documents: the documents that exist for a caller.
        ingestion: ingests documents.
        retriever: searches knowledge bases.
        rag_chat: chats with `rag/` models.
        timeout_seconds: time limit of a search.
    """

    def __init__(
        self,
        bases: Configurations[KnowledgeBase],
        documents: VisibleDocuments,
        ingestion: Ingestion,
        retriever: KnowledgeRetriever,
        rag_chat: RagChat,
        timeout_seconds: float,
    ) -> None:
        self._bases = bases
        self._documents = documents
        self._ingestion = ingestion
        self._retriever = retriever
        self._rag_chat = rag_chat
        self._timeout_seconds = timeout_seconds

    async def search(self, caller: McpCaller, given: Search, _: Progress) -> FoundPassages:
        """Search knowledge bases together. A base that fails does not affect the others.

        Raises:
            ConfigurationNotFound: a base does not exist for the caller.
            InvalidRequest: the filter is not valid, or the caller has too many bases to search all of them.
            ServiceError: no base could be searched.
        """
        language.parse(given.where)  # also if there is no base, and before the question is embedded
        bases = await self._searched(given.bases, caller)
        queries = [
            BaseQuery.of(
                base, given.limit, base.body.min_score, caller.variables, where=given.where or None, chunks_only=True
            )
            for base in bases
        ]
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        results = await self._retriever.search(Question(given.query), queries, deadline)
        _check(results)
        found, _others = without_repetitions([passage for result in results for passage in result.passages])
        best = sorted(found, key=lambda passage: passage.place)[: given.limit]
        ids = {base.body.name: base.id for base in bases}
        return FoundPassages([_found(passage, ids[passage.base], caller) for passage in best])

    async def _searched(self, names: Sequence[str], caller: McpCaller) -> list[Configuration[KnowledgeBase]]:
        if not names:
            names = [name for name in await self._bases.names() if caller.visible.matches(name)]
            if len(names) > MAX_BASES:
                raise InvalidRequest.at(
                    "$.bases", f"There are {len(names)} knowledge bases: name up to {MAX_BASES} of them"
                )
        return await self._documents.bases(names, caller)

    async def fetch(self, caller: McpCaller, given: Fetch, _: Progress) -> FetchedDocument:
        """Read the document of a passage. A passage of a linked collection is its own document.

        Raises:
            PassageNotFound: the passage does not exist for the caller.
            ServiceError: the engine or the database failed.
        """
        base_id, _slash, passage_id = given.id.partition("/")
        base = await self._documents.base_by_id(base_id, caller)
        passage = None if base is None else await self._retriever.passage(base, passage_id)
        if base is None or passage is None or not permits(base, passage.metadata, caller):
            raise PassageNotFound(_GONE)
        source = SourceName.of(passage.metadata, base.body.name)
        url = source.url.partition("#")[0] or _address(caller, base_id, passage_id)
        metadata = {name: value for name, value in passage.metadata.items() if name not in _INTERNAL}
        name, span = passage.metadata.get(DOCUMENT_NAME_KEY), _span(passage)
        if not isinstance(name, str) or span is None:
            # A record of others, which the gateway has no document of.
            return FetchedDocument(given.id, source.title, passage.text, url, {**metadata, "base": base.body.name})
        try:
            document = await self._documents.find(base, name, caller)
            margin = None if given.around is None else given.around * _chunk_characters(base.body)
            part = await self._documents.text_around(base, document, span, margin)
        except DocumentNotFound:
            raise PassageNotFound(_GONE) from None
        where: dict[str, str | int | float] = {
            "base": base.body.name,
            "document": name,
            "uri": resource_uri(base.body.name, name),
            "start": part.start,
            "end": part.end,
            "characters": part.length,
            "passage_start": span[0],
            "passage_end": span[1],
        }
        return FetchedDocument(given.id, source.name, part.text, url, {**document.metadata, **where})

    async def list_bases(self, caller: McpCaller, given: ListBases, _: Progress) -> BaseEntries:
        """List the knowledge bases that exist for the caller.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        found = await self._bases.descriptors(index=given.page, limit=MAX_BASES, visible=caller.visible)
        return BaseEntries(
            [BaseEntry(each.name, each.description) for each in found],
            given.page + 1 if len(found) == MAX_BASES else None,
        )

    async def list_documents(self, caller: McpCaller, given: ListDocuments, _: Progress) -> ListedDocuments:
        """List the documents of a knowledge base.

        Raises:
            ConfigurationNotFound: the base does not exist for the caller.
            DatabaseUnavailable: the database cannot be used.
        """
        base = await self._documents.base(given.base, caller)
        found, total = await self._documents.page(base, given.page, caller)
        return ListedDocuments(
            [
                ListedDocument(
                    each.name,
                    resource_uri(base.body.name, each.name),
                    each.media_type,
                    each.bytes,
                    each.modified_on.isoformat(timespec="seconds"),
                    dict(each.metadata),
                )
                for each in found
            ],
            total,
            given.page + 1 if (given.page + 1) * PAGE < total else None,
        )

    async def remember(self, caller: McpCaller, given: Remember, progress: Progress) -> Remembered:
        """Ingest a text, and wait until searches find it. It is ingested to the end if the caller leaves.

        Raises:
            ConfigurationNotFound: the base does not exist for the caller.
            Forbidden: the caller may not write.
            InvalidRequest: the title or the metadata are not valid.
            ServiceError: the text was not accepted.
        """
        if not caller.may_write:
            raise Forbidden("The key may not write documents")
        base = await self._documents.base(given.base, caller)
        content = given.text.encode()
        name = given.title or f"note-{hashlib.sha256(content).hexdigest()[:16]}.txt"
        metadata = filled_metadata(given.metadata, caller.variables)
        document = NewContent(checked_name(name, "$.title"), "text/plain", content, base.body.name, metadata)
        record_write(f"ragstore/rags/{base.id}/documents/{document.name}", 1)
        ingestion = await self._ingestion.ingest(base.id, document)
        ends = asyncio.get_running_loop().time() + WAIT_SECONDS
        reported = 0.0
        while ingestion.state in UNFINISHED and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(POLL_SECONDS)
            ingestion = await self._ingestion.documents.ingestion(base.id, ingestion.id)
            if status_of(ingestion).progress > reported:
                # The protocol demands that each report is greater than the one before.
                reported = status_of(ingestion).progress
                await progress(reported)
        return Remembered(base.body.name, document.name, ingestion.id, status_of(ingestion).status)

    async def ask(self, caller: McpCaller, given: Ask, _: Progress) -> Answer:
        """Send a question to a `rag/` model.

        Raises:
            ServiceError: there is no reply.
        """
        return await self._rag_chat.reply_to(caller.scope, given.question, given.assistant)


def _check(results: Sequence[BaseResult]) -> None:
    """Check that a knowledge base was searched.

    Raises:
        ServiceError: there are some, and each search failed.
    """
    if not results or any(not result.error for result in results):
        return
    failure = next((result.failure for result in results if result.failure is not None), None)
    raise failure or RetrievalFailed(f"No knowledge base was searched: {results[0].error}")


def _found(passage: Passage, base_id: str, caller: McpCaller) -> FoundPassage:
    source = SourceName.of(passage.metadata, passage.base)
    page, heading = passage.metadata.get("page_number"), passage.metadata.get("section_heading")
    return FoundPassage(
        f"{base_id}/{passage.id}",
        source.title,
        source.url or _address(caller, base_id, passage.id),
        passage.text[:MAX_PASSAGE],
        round(passage.relevance, 6),
        passage.base,
        page if isinstance(page, int) else UNSET,
        heading if isinstance(heading, str) else UNSET,
    )


def _address(caller: McpCaller, base_id: str, passage_id: str) -> str:
    return caller.origin + passage_path(base_id, passage_id)


def _span(passage: Passage) -> tuple[int, int] | None:
    start, end = passage.metadata.get("char_start"), passage.metadata.get("char_end")
    return (start, end) if isinstance(start, int) and isinstance(end, int) else None


def _chunk_characters(base: KnowledgeBase) -> int:
    """Number of characters of a chunk, as far as it is known without its text."""
    return base.chunk_size * (CHARACTERS_PER_TOKEN if base.chunk_unit == "tokens" else 1)
