"""Documents stay found, however many chunks that no search may find are nearer to a question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from ragstore.filters.grammar import MAX_CLAUSES, MAX_VALUES
from ragstore_client import Where
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, EngineCollection, MetadataValue, Passage, Record
from ragstore_gateway.ingestion.collections import Collection
from ragstore_gateway.ingestion.removals import add_removal
from ragstore_gateway.ingestion.tables import DocumentRow, DocumentTextRow, IngestionRow
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery
from ragstore_gateway.retrieval.visible_search import narrowed
from tests.support.ingestion import until
from tests.support.knowledge import Knowledge, knowledge_of

KETTLE: Final = "How long is the warranty of the kettle?"
GOOD: Final = "Trains leave at noon."
MANY: Final = MAX_PASSAGES + 200


@pytest.fixture
async def knowledge(tmp_path: Path) -> AsyncIterator[Knowledge]:
    """An empty database. The vectors are in the memory of the test."""
    async with knowledge_of(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}", "http://127.0.0.1:1") as state:
        yield state


class Room:
    """A base with one good document, which is far from the question, and what else is put into its collection.

    Args:
        knowledge: the state of the gateway.
    """

    def __init__(self, knowledge: Knowledge, base: Configuration[KnowledgeBase], collection: Collection) -> None:
        self.knowledge = knowledge
        self.base = base
        self.collection = collection

    @property
    def store(self) -> EngineCollection:
        """The collection in its engine."""
        return self.knowledge.collections.open(self.collection)

    async def put(self, number: int, metadata: Mapping[str, MetadataValue], *, each: str = "") -> list[str]:
        """Put chunks that are nearer to the question than all others; return their ids.

        Args:
            number: number of chunks.
            each: a key that has another value for each chunk.
        """
        vector = (await self.knowledge.collections.embedder(self.collection).embed([KETTLE], "query"))[0]
        own = [dict(metadata) | ({each: str(uuid4())} if each else {}) for _ in range(number)]
        records = [Record(str(uuid4()), "CANARY near", vector, metadata) for metadata in own]
        await self.store.write(records)
        return [record.id for record in records]

    async def ingesting(self, state: str = "processing", *, finished_on: datetime | None = None) -> dict[str, str]:
        """The metadata of the chunks of a document that is being written, or was."""
        document, revision = str(uuid4()), str(uuid4())
        async with self.knowledge.database.session() as session:
            session.add(ingestion_row(self.base.id, document, revision, state, finished_on))
        return {"document_id": document, "revision": revision}

    async def document(self) -> DocumentRow:
        """The good document."""
        async with self.knowledge.database.reading() as session:
            return (await session.scalars(sa.select(DocumentRow).where(DocumentRow.base_id == self.base.id))).one()

    async def keep_text(self) -> None:
        """Give the good document the text that each document has."""
        row = await self.document()
        async with self.knowledge.database.session() as session:
            session.add(DocumentTextRow(revision=str(row.current_revision), document_id=row.id, extracted=b""))

    async def texts(self, **fields: Any) -> list[str]:
        """The texts that a search finds."""
        query = BaseQuery(self.base, **{"max_results": 3, "min_score": 0.0, **fields})
        deadline = asyncio.get_running_loop().time() + 20
        [result] = await self.knowledge.retriever.search(Question(KETTLE), [query], deadline)
        assert result.error == ""
        return [passage.text for passage in result.passages]

    async def chunks(self) -> int:
        """The number of chunks, once no removal runs."""
        await until(lambda: not self.knowledge.strays.is_busy)
        return await self.store.count()


def ingestion_row(
    base_id: str, document: str, revision: str, state: str, finished_on: datetime | None = None
) -> IngestionRow:
    """An ingestion."""
    return IngestionRow(
        id=revision,
        kind="ingest",
        base_id=base_id,
        kb_id=base_id,
        document_id=document,
        document_name="large.txt",
        revision=revision,
        sequence=1,
        state=state,
        message="",
        unchanged=False,
        targets=[],
        written={},
        chunks=0,
        chunks_embedded=0,
        media_type="text/plain",
        bytes=1,
        content_hash="",
        attempts=1,
        created_on=datetime.now(UTC),
        started_on=None,
        finished_on=finished_on,
    )


@pytest.fixture
async def room(knowledge: Knowledge) -> Room:
    """A base with one good document."""
    base = await knowledge.base("docs", [GOOD], storeType="in-memory")
    collection = await knowledge.collections.active(base.id)
    assert collection is not None
    return Room(knowledge, base, collection)


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(f"ragstore_gateway_stray_chunks_{name}_total") or 0.0


async def test_a_document_is_found_while_a_large_one_that_is_nearer_is_written(room: Room) -> None:
    await room.put(MANY, await room.ingesting())
    assert await room.texts() == [GOOD]
    assert await room.texts(where={"chunk_index": 0}) == [GOOD]
    assert await room.chunks() == MANY + 1


async def test_a_document_is_found_while_many_documents_that_are_nearer_are_written(room: Room) -> None:
    for _ in range(30):
        await room.put(MANY // 30, await room.ingesting())
    assert await room.texts() == [GOOD]
    assert await room.chunks() == MANY // 30 * 30 + 1


async def test_a_document_is_found_while_a_large_one_that_is_nearer_is_removed(room: Room) -> None:
    async with room.knowledge.database.session() as session:
        add_removal(session, room.collection, "removed")
        add_removal(session, room.collection, "replaced", "old")
    await room.put(MANY, {"document_id": "removed"}, each="revision")
    await room.put(MANY, {"document_id": "replaced", "revision": "old"})
    found = counted("found")
    assert await room.texts() == [GOOD]
    assert await room.chunks() == 2 * MANY + 1
    assert counted("found") == found


@pytest.mark.parametrize(
    ("metadata", "each"),
    [({"source": "text"}, ""), ({}, "revision"), ({"document_id": "d\0", "revision": "r\0"}, ""), ({}, "document_id")],
)
async def test_a_document_is_found_among_foreign_chunks_which_are_removed(
    room: Room, metadata: dict[str, MetadataValue], each: str
) -> None:
    await room.put(MANY, metadata, each=each)
    found, removed = counted("found"), counted("removed")
    with capture_logs() as logs:
        assert await room.texts() == [GOOD]
        assert await room.chunks() == 1
    assert (counted("found") - found, counted("removed") - removed) == (MANY, MANY)
    lines = [line for line in logs if line["event"] == "stray chunks removed"]
    assert sum(line["count"] for line in lines) == MANY
    assert "CANARY" not in str(logs)
    assert await room.texts() == [GOOD]


async def test_a_foreign_chunk_with_the_revision_of_a_document_does_not_hide_it(room: Room) -> None:
    await room.keep_text()
    row = await room.document()
    await room.put(50, {"document_id": "another", "revision": str(row.current_revision)})
    assert await room.texts() == [GOOD]
    assert await room.chunks() == 1


async def test_chunks_of_an_ingestion_of_another_replica_are_no_strays_and_those_of_an_old_one_are(room: Room) -> None:
    now = datetime.now(UTC)
    kept = [await room.ingesting(state) for state in ("pending", "processing")]
    kept.append(await room.ingesting("cancelled", finished_on=now))
    for metadata in kept:
        await room.put(1, metadata)
    await room.put(1, await room.ingesting("failed", finished_on=now - timedelta(hours=2)))
    await room.put(1, {"document_id": (await room.document()).id, "revision": "never"})
    await room.texts()
    assert await room.chunks() == len(kept) + 1


async def test_chunks_of_a_base_in_the_collection_of_another_one_are_strays_there_only(room: Room) -> None:
    other = await room.knowledge.base("other", ["Ships leave at noon."], storeType="in-memory")
    collection = await room.knowledge.collections.active(other.id)
    assert collection is not None
    row = await room.document()
    there = Room(room.knowledge, other, collection)
    await there.put(1, {"document_id": row.id, "revision": str(row.current_revision)})
    assert await there.texts() == ["Ships leave at noon."]
    assert await room.texts() == [GOOD]
    assert (await there.chunks(), await room.chunks()) == (1, 1)


async def test_a_collection_that_the_database_does_not_list_loses_nothing(room: Room) -> None:
    await room.put(5, {"source": "text"})
    async with room.knowledge.database.session() as session:
        await session.execute(sa.text("DELETE FROM vector_collection"))
    vector = (await room.knowledge.collections.embedder(room.collection).embed([KETTLE], "query"))[0]
    room.knowledge.strays.report(room.collection, vector, await room.store.search(vector, 10))
    assert await room.chunks() == 6


def passage(document: str, revision: str, number: int = 0) -> Passage:
    return Passage(f"{revision}-{number}", f"text of {revision}", 0.9, {"document_id": document, "revision": revision})


class Publishing:
    """A search during which a document changes: a replica publishes a revision, as `Publication` does.

    Args:
        room: the base.
        chunks: the chunks in the collection, by revision.
    """

    def __init__(self, room: Room, document: str, chunks: Mapping[str, int]) -> None:
        self.room = room
        self.document = document
        self.chunks = dict(chunks)
        self.plan: list[tuple[str, int]] = []
        self.searches = 0

    async def publish(self, revision: str) -> None:
        """Make a revision visible; its predecessor is removed."""
        values = {"current_revision": revision, "modified_on": datetime.now(UTC)}
        change = sa.update(DocumentRow).where(DocumentRow.id == self.document).values(values)
        async with self.room.knowledge.database.session() as session:
            await session.execute(change)

    async def fetch(self, limit: int, clause: Where | None) -> list[Passage]:
        """Search. Afterwards, the next revision of the plan is complete and visible."""
        self.searches += 1
        excluded: Any = {} if clause is None else clause["revision"]
        hidden = excluded.get("$nin", [])
        found = [
            passage(self.document, revision, number)
            for revision, count in self.chunks.items()
            for number in range(count)
            if revision not in hidden and ("$in" not in excluded or revision in excluded["$in"])
        ]
        if self.plan:
            revision, count = self.plan.pop(0)
            self.chunks = {revision: count}
            await self.publish(revision)
        return found[:limit]

    async def search(self, max_results: int = 3) -> list[str]:
        """The chunks that are found."""
        found = await self.room.knowledge.visible_search.search(self.room.base.id, self.fetch, max_results)
        return [each.id for each in found.visible]


async def test_a_document_that_is_replaced_during_a_search_is_found_with_all_chunks_of_one_revision(room: Room) -> None:
    row = await room.document()
    publishing = Publishing(room, row.id, {str(row.current_revision): 2})
    publishing.plan = [("new", 3)]
    assert await publishing.search() == ["new-0", "new-1", "new-2"]


async def test_a_revision_that_is_read_in_part_and_becomes_visible_is_read_again(room: Room) -> None:
    row = await room.document()
    publishing = Publishing(room, row.id, {str(row.current_revision): 1, "new": 1})
    publishing.plan = [("new", 3)]
    assert await publishing.search() == ["new-0", "new-1", "new-2"]


async def test_an_excluded_revision_that_becomes_visible_is_found(room: Room) -> None:
    row = await room.document()
    async with room.knowledge.database.session() as session:
        session.add(DocumentTextRow(revision="new", document_id=row.id, extracted=b""))
        await session.execute(sa.update(DocumentRow).values(modified_on=datetime.now(UTC) - timedelta(hours=1)))
    publishing = Publishing(room, row.id, {"new": 50})

    async def second(limit: int, clause: Where | None) -> list[Passage]:
        if clause is not None and not publishing.plan and publishing.searches == 1:
            publishing.plan = [("new", 50)]
        return await publishing.fetch(limit, clause)

    found = await room.knowledge.visible_search.search(room.base.id, second, 3)
    assert [each.id for each in found.visible] == ["new-0", "new-1", "new-2"]


async def test_a_document_that_is_replaced_again_and_again_is_found(room: Room) -> None:
    row = await room.document()
    publishing = Publishing(room, row.id, {str(row.current_revision): 1})
    publishing.plan = [(f"r{number}", 1) for number in range(8)]
    assert await publishing.search() == ["r7-0"]


async def test_a_quiet_search_is_sent_once(room: Room) -> None:
    async with room.knowledge.database.session() as session:
        await session.execute(sa.update(DocumentRow).values(modified_on=datetime.now(UTC) - timedelta(hours=1)))
    row = await room.document()
    publishing = Publishing(room, row.id, {str(row.current_revision): 3, "removed": 2})
    assert len(await publishing.search()) == 3
    assert publishing.searches == 1


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, {"revision": {"$nin": ["r"]}}),
        ({}, {"revision": {"$nin": ["r"]}}),
        ({"page": 1}, {"page": 1, "revision": {"$nin": ["r"]}}),
        ({"revision": "x"}, {"$and": [{"revision": "x"}, {"revision": {"$nin": ["r"]}}]}),
    ],
)
def test_a_clause_is_added_to_a_filter(where: Where | None, expected: Where) -> None:
    assert narrowed(where, {"revision": {"$nin": ["r"]}}) == expected


def test_a_filter_at_its_maxima_stays_as_it_is() -> None:
    clause: Where = {"revision": {"$nin": ["r"]}}
    for where in ({f"k{n}": 1 for n in range(MAX_CLAUSES)}, {"k": {"$in": [str(n) for n in range(MAX_VALUES)]}}):
        assert narrowed(where, clause) == where
