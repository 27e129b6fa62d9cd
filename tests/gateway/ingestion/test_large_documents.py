"""A document with many chunks is embedded while it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ragstore_gateway.engines.engine_collection import MAX_BATCH, Record
from ragstore_gateway.engines.in_memory_store import InMemoryStore
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.recorded_ingestion import RecordedIngestion
from tests.support.ingesting_process import IngestingProcess
from tests.support.knowledge import Knowledge

pytestmark = pytest.mark.process

CHUNKS = 5 * MAX_BATCH


async def test_the_engine_gets_as_many_records_with_one_call_as_it_takes(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await knowledge.base("large", storeType="in-memory", chunkStrategy="window", chunkSize=8, chunkOverlap=0)
    process = IngestingProcess(knowledge)
    embedded = 0
    more = asyncio.Condition()
    sizes: list[int] = []
    embed, write = RecordedIngestion.records, InMemoryStore.write

    async def counted(self: RecordedIngestion, *arguments: Any) -> list[Record]:
        nonlocal embedded
        records = await embed(self, *arguments)
        async with more:
            embedded += len(records)
            more.notify_all()
        return records

    async def slow(self: InMemoryStore, records: Sequence[Record]) -> None:
        sizes.append(len(records))
        async with more:
            await more.wait_for(lambda: embedded >= min(sum(sizes) + MAX_BATCH, CHUNKS))
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
