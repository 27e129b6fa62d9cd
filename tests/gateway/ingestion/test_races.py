"""Changes of a knowledge base while one of its documents is ingested, each in a fixed order of the transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.configuration import Configuration, ConfigurationListener
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.engines.in_memory_store import InMemoryStore
from ragstore_gateway.errors import CollectionMissing, StoreUnavailable
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import Collection, Collections, live_collections
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.payloads import CHUNKS, VECTORS, put_payloads
from ragstore_gateway.ingestion.queue import MAX_ATTEMPTS
from ragstore_gateway.ingestion.records import BATCH
from ragstore_gateway.ingestion.reindexing import Reindexing
from ragstore_gateway.ingestion.removals import LATE_REMOVAL, Removals
from ragstore_gateway.ingestion.schemas import entry_of
from ragstore_gateway.ingestion.tables import CollectionRow, IngestionRow, RemovalRow
from ragstore_gateway.ingestion.transactions import add_reindexing, end_ingestion
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan
from tests.support.ingesting_process import IngestingProcess
from tests.support.knowledge import Knowledge

pytestmark = pytest.mark.process


@pytest.fixture
async def knowledge(knowledge: Knowledge) -> Knowledge:
    """The state of a gateway, whose collections follow the configurations."""
    knowledge.bases.add_listener(Reindexing(knowledge.collections, lambda: None))
    return knowledge


@dataclass
class BeginsDuringChange(ConfigurationListener[KnowledgeBase]):
    """Begins an ingestion in the transaction that changes its base."""

    process: IngestingProcess
    base_id: str
    task: asyncio.Task[Sequence[ClaimedDocument]] | None = None

    async def changed(
        self, session: AsyncSession, before: Configuration[KnowledgeBase], after: Configuration[KnowledgeBase]
    ) -> None:
        """Begin the ingestion, which waits for the end of the transaction."""
        self.task = asyncio.create_task(self.process.claim(self.base_id))
        await asyncio.wait({self.task}, timeout=0.5)
        assert not self.task.done()


async def test_an_ingestion_that_begins_during_the_change_of_an_empty_base_uses_the_new_configuration(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("changed")
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    await documents.accept(base.id, NewContent("doc", "text/plain", b"tea", "alias"))
    during = BeginsDuringChange(IngestingProcess(knowledge), base.id)
    knowledge.bases.add_listener(during)
    body = msgspec.structs.replace(base.body, chunk_size=77)
    await knowledge.bases.update(base.id, 1, body)
    assert during.task is not None
    await during.task
    active = await knowledge.collections.active(base.id)
    assert active is not None
    assert active.chunking == body.chunking
    assert active.chunking != base.body.chunking


async def test_a_document_that_a_new_collection_lacks_is_tried_again_after_a_wait_that_doubles(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("failing", ["tea"], storeType="in-memory")
    await knowledge.bases.update(base.id, 1, msgspec.structs.replace(base.body, chunk_size=77))
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    waits = [30, 60, 120]
    for wait in waits:
        assert await _repeat(knowledge, base.id) == 0
        failed_on = datetime.now(UTC)
        async with knowledge.database.session() as session:
            # The job that was added last is the only one that has not ended.
            row = (await session.scalars(sa.select(IngestionRow).where(IngestionRow.state == "pending"))).one()
            await end_ingestion(session, row, "failed", "Internal error")
        await _set_finished(knowledge, base.id, failed_on - timedelta(seconds=wait - 20))
        assert await _repeat(knowledge, base.id) == 0
        listed = (await documents.documents(base.id, 0, 10)).documents[0]
        assert (listed.state, listed.reindexing_error) == ("completed", "Internal error")
        assert entry_of(listed).reindexing_error == "Internal error"
        assert await documents.find(base.id, listed.name) == listed
        await _set_finished(knowledge, base.id, failed_on - timedelta(seconds=wait))
        assert await _repeat(knowledge, base.id) == 1
    await knowledge.bases.update(base.id, 2, base.body)
    assert (await documents.documents(base.id, 0, 10)).documents[0].reindexing_error == ""


@pytest.mark.parametrize("reset", ["update", "ingestion"])
async def test_a_document_is_given_up_after_20_attempts_until_it_or_the_base_is_written_again(
    knowledge: Knowledge, reset: str
) -> None:
    base = await knowledge.base(f"given up {reset}", ["tea"], storeType="in-memory")
    changed = msgspec.structs.replace(base.body, chunk_size=77)
    await knowledge.bases.update(base.id, 1, changed)
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    long_ago = datetime.now(UTC) - timedelta(days=1)
    added = 1
    for _ in range(20):
        async with knowledge.database.session() as session:
            row = (await session.scalars(sa.select(IngestionRow).where(IngestionRow.state == "pending"))).one()
            await end_ingestion(session, row, "failed", "The text is too long")
        await _set_finished(knowledge, base.id, long_ago)
        added = await _repeat(knowledge, base.id)
    assert added == 0
    listed = (await documents.documents(base.id, 0, 10)).documents[0]
    assert listed.reindexing_error == "The text is too long; given up after 20 attempts"
    if reset == "update":
        await knowledge.bases.update(base.id, 2, msgspec.structs.replace(changed, max_results=7))
        async with knowledge.database.reading() as session:
            assert (
                len((await session.scalars(sa.select(IngestionRow).where(IngestionRow.state == "pending"))).all()) == 1
            )
    else:
        await documents.accept(base.id, NewContent(listed.name, "text/plain", b"other", ""))
        assert await _repeat(knowledge, base.id) == 1
    assert (await documents.documents(base.id, 0, 10)).documents[0].reindexing_error == ""


async def _repeat(knowledge: Knowledge, base_id: str) -> int:
    async with knowledge.database.session() as session:
        building = next(row for row in await live_collections(session, base_id) if row.state == "building")
        return await add_reindexing(session, base_id, "name", building)


async def _set_finished(knowledge: Knowledge, base_id: str, finished_on: datetime) -> None:
    change = sa.update(IngestionRow).where(IngestionRow.base_id == base_id, IngestionRow.state == "failed")
    async with knowledge.database.session() as session:
        await session.execute(change.values(finished_on=finished_on))


class Store(InMemoryStore):
    """A store whose `create` runs something first.

    Args:
        before_create: what it runs.
    """

    def __init__(self, before_create: Callable[[], Awaitable[None]]) -> None:
        super().__init__({}, "collection", 256)
        self.before_create = before_create

    async def create(self) -> None:
        """Create the collection."""
        await self.before_create()
        await super().create()


class StoreCollections(Collections):
    """Collections that are all in one store."""

    store: Store

    def open(self, collection: Collection) -> Store:
        """The store."""
        return self.store


async def _ingest(knowledge: Knowledge, base_id: str, before_create: Callable[[], Awaitable[None]]) -> None:
    """Ingest a document, and run something when its collection is about to be created."""
    collections = StoreCollections(knowledge.database, knowledge.embeddings, knowledge.engines)
    collections.store = Store(before_create)
    process = IngestingProcess(knowledge, collections=collections)
    await Documents(knowledge.database, Acceptance(10, 1000)).accept(
        base_id, NewContent("doc", "text/plain", b"tea", "")
    )
    await process.pipeline.run(await process.claim(base_id))


@pytest.mark.parametrize("permanent", [False, True])
async def test_the_deletion_of_a_base_ends_the_retries_of_its_ingestions(knowledge: Knowledge, permanent: bool) -> None:
    base = await knowledge.base("unavailable")
    calls = 0

    async def before_create() -> None:
        nonlocal calls
        calls += 1
        assert calls == 1
        await knowledge.bases.delete(base.id, permanent=permanent)
        raise StoreUnavailable("The store does not respond")

    async with asyncio.timeout(60):
        await _ingest(knowledge, base.id, before_create)
    assert calls == 1


async def test_a_collection_that_is_created_after_its_removal_is_removed_again(knowledge: Knowledge) -> None:
    base = await knowledge.base("removed", storeType="in-memory")
    removals = Removals(knowledge.database, knowledge.engines)
    opened: list[Collection] = []

    async def before_create() -> None:
        collection = await knowledge.collections.active(base.id)
        assert collection is not None
        opened.append(collection)
        await knowledge.bases.delete(base.id, permanent=True)
        await removals.run()
        # The gateway's own store, where the removal was, has the late collection.
        await knowledge.collections.open(collection).create()
        await knowledge.collections.open(collection).write([])

    await _ingest(knowledge, base.id, before_create)
    await removals.run()
    with pytest.raises(CollectionMissing):
        await knowledge.collections.open(opened[0]).write([])


async def test_a_collection_that_a_killed_process_created_after_its_removal_is_removed_later(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("killed", storeType="in-memory")
    removals = Removals(knowledge.database, knowledge.engines)
    opened: list[Collection] = []

    async def before_create() -> None:
        collection = await knowledge.collections.active(base.id)
        assert collection is not None
        opened.append(collection)
        await knowledge.bases.delete(base.id, permanent=True)
        await removals.run()
        await knowledge.collections.open(collection).create()
        raise asyncio.CancelledError  # nothing of the process runs after this

    with pytest.raises(asyncio.CancelledError):
        await _ingest(knowledge, base.id, before_create)
    await removals.run()
    await knowledge.collections.open(opened[0]).write([])
    async with knowledge.database.session() as session:
        late = (await session.scalars(sa.select(RemovalRow))).one()
        late.due_on -= LATE_REMOVAL
    await removals.run()
    with pytest.raises(CollectionMissing):
        await knowledge.collections.open(opened[0]).write([])


async def texts_of(knowledge: Knowledge, base_id: str) -> list[str]:
    """The texts of all chunks of a base, sorted."""
    collection = await knowledge.collections.active(base_id)
    assert collection is not None
    everywhere = np.ones(collection.dimension or 0, dtype=np.float32)
    return sorted(passage.text for passage in await knowledge.collections.open(collection).search(everywhere, 10))


async def test_an_interrupted_ingestion_continues_with_the_chunks_that_an_earlier_version_has_recorded(
    knowledge: Knowledge,
) -> None:
    class Earlier:
        """Splits as an earlier version, whose spans have no last page."""

        async def split(self, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
            """Split a text into two chunks."""
            return [ChunkSpan(0, 1, 1, None, "", {}), ChunkSpan(1, 3, 1, None, "", {})]

    base = await knowledge.base("resumed", storeType="in-memory")
    accepted = await Documents(knowledge.database, Acceptance(10, 1000)).accept(
        base.id, NewContent("doc", "text/plain", b"tea", "")
    )
    process = IngestingProcess(knowledge)
    (claimed,) = await process.claim(base.id)
    async with knowledge.database.session() as session:
        collection_id = claimed.targets[0].id
        spans = msgspec.msgpack.encode(await Earlier().split(b"", claimed.targets[0].chunking))
        await put_payloads(session, accepted.id, CHUNKS, collection_id, {0: spans})
    await process.end()
    await process.pipeline.run(await process.claim(base.id, interrupted=True))
    assert await texts_of(knowledge, base.id) == ["ea", "t"]


async def test_an_interrupted_ingestion_that_seemed_unchanged_is_ingested_when_another_content_is_published_before_it(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("seemingly unchanged", storeType="in-memory")
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    process = IngestingProcess(knowledge)
    await documents.accept(base.id, NewContent("doc", "text/plain", b"tea", ""))
    await process.pipeline.run(await process.claim(base.id))
    accepted = [
        await documents.accept(base.id, NewContent("doc", "text/plain", content, "")) for content in (b"coffee", b"tea")
    ]
    await process.claim(base.id)
    await process.end()
    for each in [await process.claim(base.id, interrupted=True) for _ in accepted]:
        await process.pipeline.run(each)

    states = [(await documents.ingestion(base.id, each.id)).state for each in accepted]
    assert states == ["completed", "completed"]
    assert "tea" in await texts_of(knowledge, base.id)


@pytest.mark.parametrize("interrupted", [True, False])
async def test_the_re_indexing_of_a_content_ends_when_it_was_replaced_before(
    knowledge: Knowledge, interrupted: bool
) -> None:
    base = await knowledge.base("replaced", storeType="in-memory")
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    process = IngestingProcess(knowledge)
    await documents.accept(base.id, NewContent("doc", "text/plain", b"tea", ""))
    await process.pipeline.run(await process.claim(base.id))
    await knowledge.bases.update(base.id, 1, msgspec.structs.replace(base.body, chunk_size=77))
    if interrupted:
        await process.claim(base.id)
        await process.end()
    replaced = await documents.accept(base.id, NewContent("doc", "text/plain", b"coffee", ""))
    async with knowledge.database.session() as session:
        query = sa.select(IngestionRow).where(IngestionRow.kind == "reindex")
        reindexing = (await session.scalars(query)).one()
        # The process that replaces the content claims nothing else.
        reindexing.owner = reindexing.owner or "other"
    (claimed,) = await process.claim(base.id)
    await process.pipeline.run([claimed])
    async with knowledge.database.session() as session:
        await session.execute(sa.update(IngestionRow).where(IngestionRow.id == reindexing.id).values(owner=""))

    assert (await documents.ingestion(base.id, replaced.id)).state == "completed"
    assert await process.claim(base.id, interrupted=interrupted) == []
    async with knowledge.database.reading() as session:
        assert (await session.get_one(IngestionRow, reindexing.id)).state == "completed"


async def test_an_ingestion_continues_with_the_vectors_that_an_earlier_version_has_recorded(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("resumed vectors", storeType="in-memory")
    text = "\n".join(f"{number} ".ljust(400, "x") for number in range(40))
    documents = Documents(knowledge.database, Acceptance(10, 100_000))
    accepted = await documents.accept(base.id, NewContent("doc", "text/plain", text.encode(), ""))
    process = IngestingProcess(knowledge)
    (claimed,) = await process.claim(base.id)
    async with knowledge.database.session() as session:
        vectors = np.ones((BATCH, 256), dtype=np.float32).tobytes()
        await put_payloads(session, accepted.id, VECTORS, claimed.targets[0].id, {0: vectors})
        # In the memory of a process, nothing survives it, so that the vectors are made again.
        change = sa.update(CollectionRow).where(CollectionRow.id == claimed.targets[0].id)
        await session.execute(change.values(store_type="test"))
    await process.end()
    collections = StoreCollections(knowledge.database, knowledge.embeddings, knowledge.engines)
    collections.store = Store(_nothing)
    process = IngestingProcess(knowledge, collections=collections)
    await process.pipeline.run(await process.claim(base.id, interrupted=True))
    assert (await documents.ingestion(base.id, accepted.id)).state == "completed"
    passages = await collections.store.search(np.ones(256, dtype=np.float32), 100)
    assert len([passage for passage in passages if passage.relevance == 1.0]) == BATCH
    assert len(passages) > BATCH


async def _nothing() -> None:
    """Nothing is run before the creation."""


async def test_an_ingestion_that_a_living_process_interrupts_is_continued_any_number_of_times(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("interrupted")
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    accepted = await documents.accept(base.id, NewContent("doc", "text/plain", b"tea", ""))
    process = IngestingProcess(knowledge)
    claimed = await process.claim(base.id)
    for _ in range(MAX_ATTEMPTS + 2):
        assert [each.id for each in claimed] == [accepted.id]
        assert await process.interrupt() == 1
        claimed = await process.claim(base.id, interrupted=True)
    found = await documents.ingestion(base.id, accepted.id)
    assert (found.state, found.attempts) == ("processing", 1)
