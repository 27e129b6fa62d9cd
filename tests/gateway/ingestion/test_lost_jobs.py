"""Jobs that the engine loses: their documents are ingested nevertheless. The test changes the engine's own database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragstore_gateway.ingestion.tables import ExecutorRow
from tests.support.ingestion import Base, EmbeddingServer, State, until

LANE = 3
"""Jobs of one base that the gateway runs concurrently."""

LOSSES = {
    # Claimed by the process, which did not start it: the engine could not read it at that moment.
    "claimed": "UPDATE workflow_status SET status = 'PENDING', executor_id = :owner, owner_xid = 'x' WHERE {own}",
    # Ended by an error of the engine itself.
    "ended": "UPDATE workflow_status SET status = 'ERROR' WHERE {own}",
    # Written shortly before a loss of power.
    "forgotten": "DELETE FROM workflow_status WHERE {own}",
}


@pytest.fixture
def jobs(ingesting_folder: Path) -> Iterator[sa.Engine]:
    """The engine's database."""
    engine = sa.create_engine(f"sqlite:///{ingesting_folder / 'data' / 'jobs.db'}")
    yield engine
    engine.dispose()


async def test_a_job_that_is_lost_is_started_again(
    base: Base, server: EmbeddingServer, state: State, jobs: sa.Engine
) -> None:
    server.held = "held"
    try:
        before = [await base.ingest(f"held {number}", f"held {number}") for number in range(LANE)]
        await until(lambda: server.waiting == LANE)
        lost = {name: await base.ingest(name, f"The text {name}") for name in LOSSES}

        def are_queued() -> bool:
            query = sa.text("SELECT count(*) FROM workflow_status WHERE status = 'ENQUEUED' AND workflow_uuid IN :ids")
            with jobs.connect() as connection:
                found = connection.execute(
                    query.bindparams(sa.bindparam("ids", expanding=True)), {"ids": list(lost.values())}
                )
                return found.scalar() == len(lost)

        await until(are_queued)
        (owner,) = [row.id for row in state.rows(sa.select(ExecutorRow.id))]
        with jobs.begin() as connection:
            for name, statement in LOSSES.items():
                own = statement.format(own="workflow_uuid = :id")
                values = {"id": lost[name], **({"owner": owner} if name == "claimed" else {})}
                assert connection.execute(sa.text(own), values).rowcount == 1
    finally:
        server.held = "\0"
    for ingestion_id in (*lost.values(), *before):
        assert (await base.ended(ingestion_id))["status"] == "completed"
    assert [text for name in LOSSES for text in [f"The text {name}"] if server.texts[text] != 1] == []
