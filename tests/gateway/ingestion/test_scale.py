"""The cost of operations with many documents: they use indexes, and work in batches."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from sqlalchemy import event, make_url

from ragstore_client import AsyncClient
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import FileNotFound
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion import supervisor as supervisor_module
from ragstore_gateway.ingestion import transactions as ingestions_module
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.removals import Removals
from ragstore_gateway.ingestion.supervisor import Supervisor
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import COMPLETED, PENDING, REINDEX, end_ingestion
from ragstore_gateway.openai_vector_stores.files import Files
from ragstore_gateway.openai_vector_stores.pages import PageQuery
from ragstore_gateway.openai_vector_stores.store_files import StoreFiles
from ragstore_gateway.openai_vector_stores.stores import Stores
from ragstore_gateway.settings import Settings
from tests.support.knowledge import Knowledge


class State:
    """The state of a gateway that runs no jobs."""

    def __init__(self, database: Database, store: AsyncClient) -> None:
        self.database = database
        knowledge = Knowledge(database, store)
        self.bases = knowledge.bases
        settings = Settings()
        self.ingestion = Ingestion(
            settings,
            database,
            self.bases,
            knowledge.embeddings,
            knowledge.engines,
            Extractor.from_settings(settings),
        )
        removals = Removals(database, knowledge.engines)
        self.supervisor = Supervisor(database, lambda: None, removals, cast(Any, None), 0.0)
        self.files = Files(database, 1000, self.ingestion.acceptance.storage)
        self.store_files = StoreFiles(database, self.bases, self.ingestion, self.files)
        self.stores = Stores(database, self.bases, cast(Any, None))
        self.knowledge = knowledge

    async def add(self, base_id: str, names: Sequence[str]) -> None:
        """Ingest documents, each with an earlier ingestion."""
        for name in (*names, *names):
            accepted = await self.ingestion.documents.accept(base_id, NewContent(name, "text/plain", b"tea", ""))
            async with self.database.session() as session:
                row = await session.get_one(IngestionRow, accepted.id)
                await end_ingestion(session, row, COMPLETED)
                row.finished_on = datetime.now(UTC) - timedelta(days=1)
                document = await session.get_one(DocumentRow, accepted.document_id)
                document.current_revision = accepted.id

    async def reindexing(self) -> int:
        """The number of documents that wait for their jobs for a new collection."""
        waiting = (IngestionRow.kind == REINDEX, IngestionRow.state == PENDING)
        query = sa.select(sa.func.count(sa.distinct(IngestionRow.document_id))).where(*waiting)
        async with self.database.reading() as session:
            return await session.scalar(query) or 0

    async def ingestion_ids(self) -> set[str]:
        """The ids of all ingestions."""
        async with self.database.reading() as session:
            return set(await session.scalars(sa.select(IngestionRow.id)))


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[State]:
    """An empty state."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    async with database.running(), AsyncClient("http://127.0.0.1:9") as store:
        yield State(database, store)


@contextmanager
def plans(database: Database) -> Iterator[list[str]]:
    """The steps of the plans of all statements that read, when the block has ended."""
    statements: list[tuple[str, Any]] = []
    found: list[str] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        statements.append((statement, parameters))

    engine = cast(Any, database)._for_transactions[False].sync_engine  # it is not public
    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)
    with closing(sqlite3.connect(str(database.url.database))) as connection:
        for statement, parameters in statements:
            if statement.startswith("SELECT"):
                steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                found += [step[3] for step in steps]


async def test_lists_and_sweeps_read_only_what_they_return(state: State) -> None:
    base = await state.bases.create(KnowledgeBase(name="tea"))
    await state.add(base.id, ["a", "b"])
    page = PageQuery(20, "desc")
    with plans(state.database) as steps:
        await state.store_files.page(base.id, page, None)
        await state.files.page(page, "user_data")
        await state.stores.read(base.id)
        with pytest.raises(FileNotFound):
            await state.store_files.read(base.id, "file-nowhere")
        await state.ingestion.documents.documents(base.id, 0, 20)
        await state.supervisor._forget()  # it is called by a loop
    assert len(steps) > 10
    assert [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE FOR ORDER BY" in step] == []


async def test_a_sweep_looks_at_a_part_of_the_ingestions_and_the_next_one_at_the_others(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "FORGET_SCAN", 3)
    base = await state.bases.create(KnowledgeBase(name="tea"))
    await state.add(base.id, [f"{index}" for index in range(4)])
    kept = {document.ingestion_id for document in (await state.ingestion.documents.documents(base.id, 0, 20)).documents}
    left = []
    for _ in range(4):
        await state.supervisor._forget()  # it is called by a loop
        left.append(len(await state.ingestion_ids()))
    # Of eight, the first four are not the last ones of their documents.
    assert left == [5, 4, 4, 4]
    assert await state.ingestion_ids() == kept


async def test_a_transaction_adds_the_jobs_of_a_part_of_the_documents_for_a_new_collection(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ingestions_module, supervisor_module):
        monkeypatch.setattr(module, "REINDEX_BATCH", 2)
    base = await state.bases.create(KnowledgeBase(name="tea"))
    async with state.database.session() as session:
        session.add(state.knowledge.collections.new_row(base.id, base.version, base.body, "active"))
    await state.add(base.id, [f"{index}" for index in range(5)])
    await state.bases.update(base.id, 1, KnowledgeBase(name="tea", chunk_size=100))
    assert await state.reindexing() == 2
    await state.supervisor._continue_reindexing()  # it is called by a loop
    assert await state.reindexing() == 5
    await state.supervisor._continue_reindexing()  # it is called by a loop
    assert await state.reindexing() == 5
    # All of them end with the base.
    await state.bases.delete(base.id)
    assert await state.reindexing() == 0
