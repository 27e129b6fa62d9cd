"""Runs, documents and schedules of sources."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "source_run",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(128), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("trigger", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("lease_until", sa.Float(53), nullable=False),
        sa.Column("added", sa.Integer(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("unchanged", sa.Integer(), nullable=False),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.Column("removed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("started_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("finished_on", DateTimeUTC(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["base_id"], ["configuration.id"], name="fk_source_run_base_id_configuration", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_source_run"),
    )
    running = sa.text("state = 'running'")
    op.create_index(
        "uq_source_run_running",
        "source_run",
        ["base_id", "source"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    op.create_index("ix_source_run_started", "source_run", ["base_id", "source", "started_on", "id"])
    op.create_index("ix_source_run_state", "source_run", ["state", "lease_until"])
    op.create_table(
        "source_document",
        sa.Column("document_id", sa.String(36), nullable=False),
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("ingestion_id", sa.String(36), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("etag", sa.Text(), nullable=False),
        sa.Column("last_modified", sa.Text(), nullable=False),
        sa.Column("links", sa.JSON(), nullable=False),
        sa.Column("characters", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("media_type", sa.String(255), nullable=False),
        sa.Column("missed_runs", sa.Integer(), nullable=False),
        sa.Column("seen_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("changed_on", DateTimeUTC(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["document.id"], name="fk_source_document_document_id_document", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_id", name="pk_source_document"),
    )
    op.create_index("ix_source_document_source", "source_document", ["base_id", "source"])
    op.create_table(
        "source_schedule",
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(128), nullable=False),
        sa.Column("cron", sa.String(255), nullable=False),
        sa.Column("next_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("interruptions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["base_id"], ["configuration.id"], name="fk_source_schedule_base_id_configuration", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("base_id", "source", name="pk_source_schedule"),
    )
    op.create_index("ix_source_schedule_next", "source_schedule", ["next_on"])
