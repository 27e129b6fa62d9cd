"""A document with many chunks is embedded while it is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from sqlalchemy import make_url

from ragstore_client import AsyncClient
from ragstore_gateway.database.database import Database
from ragstore_gateway.engines.engine_collection import MAX_BATCH, Record
from ragstore_gateway.engines.in_memory_store import InMemoryStore
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.recorded_ingestion import RecordedIngestion
from tests.support.ingesting_process import IngestingProcess
from tests.support.knowledge import Knowledge

pytestmark = pytest.mark.process

CHUNKS = 5 * MAX_BATCH


@pytest.fixture
async def knowledge(database_url: str) -> AsyncIterator[Knowledge]:
    """The state of a gateway."""
    database = Database(make_url(database_url))
    async with database.running(), AsyncClient("http://127.0.0.1:9") as store:
        found = Knowledge(database, store)
        async with found.embeddings.running():
            yield found


async def test_the_engine_gets_as_many_records_with_one_call_as_it_takes(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await knowledge.base("large", storeType="in-memory", chunkStrategy="window", chunkSize=8, chunkOverlap=0)
    process = IngestingProcess(knowledge)
    embedded = 0
    sizes: list[int] = []
    embed, write = RecordedIngestion.records, InMemoryStore.write

    async def counted(self: RecordedIngestion, *arguments: Any) -> list[Record]:
        nonlocal embedded
        records = await embed(self, *arguments)
        embedded += len(records)
        return records

    async def slow(self: InMemoryStore, records: Sequence[Record]) -> None:
        sizes.append(len(records))
        while embedded < min(sum(sizes) + MAX_BATCH, CHUNKS):  # noqa: ASYNC110  # other tasks embed
            await asyncio.sleep(0.001)
        await write(self, records)

    monkeypatch.setattr(RecordedIngestion, "records", counted)
    monkeypatch.setattr(InMemoryStore, "write", slow)
    text = "".join(f"{number:07} " for number in range(CHUNKS))
    documents = Documents(knowledge.database, Acceptance(100, 1_000_000))
    await documents.accept(base.id, NewContent("large", "text/plain", text.encode(), ""))
    claimed = await process.claim(base.id)
    await process.pipeline.run(claimed)
    assert (await documents.ingestion(base.id, claimed[0].id)).state == "completed"
    assert sum(sizes) == CHUNKS
    # The first call has what was embedded when the engine had nothing else to do.
    assert set(sizes[1:-1]) == {MAX_BATCH}
