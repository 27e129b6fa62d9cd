"""Files, and what vector stores have beyond knowledge bases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "file",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("filename", sa.String(512), nullable=False),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("media_type", sa.String(255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_file"),
    )
    op.create_index("ix_file_created", "file", ["created_on", "id"])
    op.create_table(
        "vector_store",
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("pairs", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["base_id"], ["configuration.id"], name="fk_vector_store_base_id_configuration", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("base_id", name="pk_vector_store"),
    )
    op.create_table(
        "vector_store_file",
        sa.Column("document_id", sa.String(36), nullable=False),
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("file_id", sa.String(64), nullable=False),
        sa.Column("filename", sa.String(512), nullable=False),
        sa.Column("attributes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["document.id"], name="fk_vector_store_file_document_id_document", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_id", name="pk_vector_store_file"),
        sa.UniqueConstraint("base_id", "file_id", name="uq_vector_store_file"),
    )
    op.create_index("ix_vector_store_file_file", "vector_store_file", ["file_id"])
    op.create_table(
        "file_batch",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["base_id"], ["configuration.id"], name="fk_file_batch_base_id_configuration", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_file_batch"),
    )
    op.create_index("ix_file_batch_base_id", "file_batch", ["base_id"])
    op.create_table(
        "file_batch_file",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("file_id", sa.String(64), nullable=False),
        sa.Column("ingestion_id", sa.String(36), nullable=True),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["file_batch.id"], name="fk_file_batch_file_batch_id_file_batch", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("batch_id", "file_id", name="pk_file_batch_file"),
    )
