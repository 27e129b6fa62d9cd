"""The measurement of the queue in the background."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import sqlalchemy as sa
from prometheus_client import REGISTRY
from sqlalchemy import URL

from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.keyword_backfill import KeywordBackfill
from ragstore_gateway.ingestion.removals import Removals
from ragstore_gateway.ingestion.supervisor import Supervisor
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.transactions import INGEST, PENDING
from tests.support.ingestion import until


class Endless:
    """Work in the background that never ends, such as a removal from an engine that does not respond."""

    async def run(self) -> None:
        """Wait forever."""
        await asyncio.Event().wait()


async def add(database: Database, number: int) -> None:
    """Add an ingestion that waits."""
    texts = dict.fromkeys(("base_id", "kb_id", "document_id", "document_name", "revision", "message"), str(number))
    numbers = dict.fromkeys(("sequence", "chunks", "chunks_embedded", "bytes", "attempts"), 0)
    own = {"id": str(number), "kind": INGEST, "state": PENDING, "unchanged": False, "targets": [], "written": {}}
    rest = {"media_type": "", "content_hash": "", "created_on": datetime.now(UTC)}
    async with database.session() as session:
        await session.execute(sa.insert(IngestionRow).values(**texts, **numbers, **own, **rest))


def has_pending(count: int) -> bool:
    """Whether the gauge shows a number of ingestions that have not begun."""
    return REGISTRY.get_sample_value("ragstore_gateway_ingestion_queue_length", {"state": PENDING}) == count


async def test_the_queue_is_measured_within_a_second_also_while_a_removal_does_not_end(tmp_path: Path) -> None:
    database = Database(URL.create("sqlite+aiosqlite", database=str(tmp_path / "gateway.db")))
    endless = Endless()
    supervisor = Supervisor(
        database, lambda: None, cast("Removals", endless), cast("KeywordBackfill", endless), retention_days=1
    )
    async with database.running(), supervisor.running():
        for count in (1, 2):
            await add(database, count)
            async with asyncio.timeout(1):
                await until(partial(has_pending, count))
