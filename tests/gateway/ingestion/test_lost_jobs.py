"""Ingestions that a process has lost: their documents are ingested nevertheless. The test changes the queue."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ragstore_gateway.claims.tables import ExecutorRow
from ragstore_gateway.ingestion.tables import IngestionRow
from tests.support.ingestion import Base, EmbeddingServer, State, until

pytestmark = pytest.mark.process

LANE = 3
"""Jobs of one base that the gateway runs concurrently."""


async def test_an_ingestion_that_is_lost_is_started_again(base: Base, server: EmbeddingServer, state: State) -> None:
    server.held = "held"
    try:
        before = []
        for number in range(LANE):
            before.append(await base.ingest(f"held {number}", f"held {number}"))
            await until(lambda: server.waiting == len(before))
        lost = {name: await base.ingest(name, f"The text {name}") for name in ("claimed", "unknown", "ended")}
        (owner,) = [row.id for row in state.rows(sa.select(ExecutorRow.id))]
        query = sa.select(IngestionRow.owner).where(IngestionRow.id.in_(lost.values()))
        assert {row.owner for row in state.rows(query)} == {""}
        claim = "UPDATE ingestion SET state = 'processing', owner = :owner, attempts = 1 WHERE id = :id"
        # The transaction of the claim was committed, and its response was lost.
        state.write(claim, owner=owner, id=lost["claimed"])
        # The process has ended, and its lease was removed.
        state.write(claim, owner="unknown", id=lost["unknown"])
        # The process has ended, and its lease has expired.
        state.write("INSERT INTO executor (id, lease_until) VALUES ('ended', 1.0)")
        state.write(claim, owner="ended", id=lost["ended"])
    finally:
        server.held = "\0"
    for ingestion_id in (*lost.values(), *before):
        assert (await base.ended(ingestion_id))["status"] == "completed"
    assert [name for name in lost if server.texts[f"The text {name}"] != 1] == []
