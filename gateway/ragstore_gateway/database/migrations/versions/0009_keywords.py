"""Keyword indexes of vector collections."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the tables. The chunks of earlier documents are indexed in the background."""
    op.create_table(
        "keyword_index",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("collection_id", sa.String(64), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.Column("chunks", sa.BigInteger(), nullable=False),
        sa.Column("words", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["vector_collection.id"],
            name="fk_keyword_index_collection_id_vector_collection",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_keyword_index"),
        sa.UniqueConstraint("collection_id", name="uq_keyword_index_collection_id"),
    )
    op.create_table(
        "keyword_chunk",
        sa.Column("index_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("document_id", sa.String(36), nullable=False),
        sa.Column("chunk_id", sa.String(36), nullable=False),
        sa.Column("words", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["index_id"], ["keyword_index.id"], name="fk_keyword_chunk_index_id_keyword_index", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("index_id", "number", name="pk_keyword_chunk"),
    )
    op.create_index("ix_keyword_chunk_document", "keyword_chunk", ["index_id", "document_id"])
    op.add_column(
        "vector_collection_document",
        sa.Column("has_keywords", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
