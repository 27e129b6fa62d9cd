"""The queue of ingestions, in place of the jobs of DBOS."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the owners of ingestions, and remove what DBOS has stored.

    An ingestion that has not ended has no owner, so that a process claims it. DBOS had ids only. Runs of sources
    use the leases of their processes.
    """
    op.drop_column("ingestion", "is_queued")
    op.add_column("ingestion", sa.Column("owner", sa.String(255), nullable=False, server_default=sa.text("''")))
    op.create_index("ix_ingestion_queue", "ingestion", ["owner", "state", "base_id", "created_on"])
    op.drop_index("ix_source_run_state", "source_run")
    op.drop_column("source_run", "lease_until")
    op.create_index("ix_source_run_state", "source_run", ["state"])
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.execute("DROP SCHEMA IF EXISTS ragstore_jobs CASCADE")
        return
    database = connection.engine.url.database
    if database:
        for suffix in ("", "-wal", "-shm"):
            Path(database).with_name(f"jobs.db{suffix}").unlink(missing_ok=True)
