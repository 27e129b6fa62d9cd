"""Documents that arrive together are accepted together, and do not wait for the transactions of all jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.group_acceptance import GroupAcceptance
from ragstore_gateway.ingestion.search_priority import SearchPriority

BASE = "base"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """SQLite with a knowledge base."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    now = datetime.now(UTC)
    async with database.running():
        async with database.session() as session:
            session.add(
                ConfigurationRow(
                    id=BASE,
                    kind="rags",
                    name=BASE,
                    current_version=1,
                    deleted=False,
                    created_on=now,
                    modified_on=now,
                    tenant="",
                )
            )
        yield database


async def test_uploads_wait_for_one_transaction_of_a_job_and_not_for_those_of_all_jobs(database: Database) -> None:
    groups = GroupAcceptance(Documents(database, Acceptance(1000, 10**9)), SearchPriority())
    order: list[str] = []

    async def job(number: int) -> None:
        async with database.session() as session:
            await session.execute(text("DELETE FROM configuration WHERE id = 'none'"))
            order.append(f"job {number}")

    async def upload(number: int) -> None:
        await groups.accept(BASE, NewContent(f"doc {number}", "text/plain", b"tea", BASE))
        order.append("upload")

    async with asyncio.TaskGroup() as group, database.session() as session:
        await session.execute(text("SELECT 1"))
        for number in range(5):
            group.create_task(job(number))
        for number in range(3):
            group.create_task(upload(number))
        await asyncio.sleep(0.1)
        assert order == []
    assert order.index("job 0") == 0
    assert order.index("job 4") == len(order) - 1
    assert order.index("upload") <= 2, "the uploads are one transaction"
