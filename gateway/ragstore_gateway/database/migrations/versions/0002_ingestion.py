"""Documents, ingestions and vector collections."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "document",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("base_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("current_revision", sa.String(length=36), nullable=True),
        sa.Column("current_sequence", sa.Integer(), nullable=False),
        sa.Column("last_sequence", sa.Integer(), nullable=False),
        sa.Column("last_ingestion", sa.String(length=36), nullable=False),
        sa.Column("media_type", sa.String(length=255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("modified_on", DateTimeUTC(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_document"),
        sa.UniqueConstraint("base_id", "name", name="uq_document_name"),
    )
    op.create_table(
        "executor",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("lease_until", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_executor"),
    )
    op.create_table(
        "ingestion",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("base_id", sa.String(length=36), nullable=False),
        sa.Column("kb_id", sa.String(length=128), nullable=False),
        sa.Column("document_id", sa.String(length=36), nullable=False),
        sa.Column("document_name", sa.String(length=512), nullable=False),
        sa.Column("revision", sa.String(length=36), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("unchanged", sa.Boolean(), nullable=False),
        sa.Column("targets", sa.JSON(), nullable=False),
        sa.Column("written", sa.JSON(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("chunks_embedded", sa.Integer(), nullable=False),
        sa.Column("media_type", sa.String(length=255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("is_queued", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("started_on", DateTimeUTC(timezone=True), nullable=True),
        sa.Column("finished_on", DateTimeUTC(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_ingestion"),
    )
    op.create_index("ix_ingestion_base", "ingestion", ["base_id", "state"], unique=False)
    op.create_index("ix_ingestion_document", "ingestion", ["document_id"], unique=False)
    op.create_index("ix_ingestion_state", "ingestion", ["state", "created_on"], unique=False)
    op.create_table(
        "vector_collection",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("base_id", sa.String(length=36), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=32), nullable=False),
        sa.Column("embedding_parameters", sa.JSON(), nullable=False),
        sa.Column("store_type", sa.String(length=32), nullable=False),
        sa.Column("store_parameters", sa.JSON(), nullable=False),
        sa.Column("chunking", sa.JSON(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=True),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_vector_collection"),
    )
    op.create_index("ix_vector_collection_base", "vector_collection", ["base_id", "state"], unique=False)
    op.create_table(
        "vector_removal",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("base_id", sa.String(length=36), nullable=False),
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("store_type", sa.String(length=32), nullable=False),
        sa.Column("store_parameters", sa.JSON(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("document_id", sa.String(length=36), nullable=True),
        sa.Column("revision", sa.String(length=36), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_on", DateTimeUTC(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_vector_removal"),
    )
    op.create_index("ix_vector_removal_base", "vector_removal", ["base_id"], unique=False)
    op.create_index("ix_vector_removal_due", "vector_removal", ["due_on"], unique=False)
    op.create_table(
        "document_text",
        sa.Column("revision", sa.String(length=36), nullable=False),
        sa.Column("document_id", sa.String(length=36), nullable=False),
        sa.Column("extracted", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["document.id"], name="fk_document_text_document_id_document", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("revision", name="pk_document_text"),
    )
    op.create_index("ix_document_text_document_id", "document_text", ["document_id"], unique=False)
    op.create_table(
        "ingestion_payload",
        sa.Column("ingestion_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["ingestion_id"], ["ingestion.id"], name="fk_ingestion_payload_ingestion_id_ingestion", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ingestion_id", "kind", "collection_id", "position", name="pk_ingestion_payload"),
    )
    op.create_table(
        "vector_collection_document",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("document_id", sa.String(length=36), nullable=False),
        sa.Column("revision", sa.String(length=36), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["vector_collection.id"],
            name="fk_vector_collection_document_collection_id_vector_collection",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["document.id"],
            name="fk_vector_collection_document_document_id_document",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("collection_id", "document_id", name="pk_vector_collection_document"),
    )
    op.create_index(
        "ix_vector_collection_document_document_id", "vector_collection_document", ["document_id"], unique=False
    )
