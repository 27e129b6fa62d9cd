"""Steps and contexts of conversations, and the audit ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0003"
down_revision = "0002"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables, and the head of an empty ledger."""
    op.create_table(
        "conversation_step",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("conversation", sa.String(200), nullable=False),
        sa.Column("key", sa.String(128), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.Column("assistant", sa.String(128), nullable=False),
        sa.Column("assistant_version", sa.Integer(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_conversation_step"),
        sa.UniqueConstraint("id", name="uq_conversation_step_id"),
    )
    op.create_index("ix_conversation_step_conversation", "conversation_step", ["conversation", "number"])
    op.create_table(
        "conversation_context",
        sa.Column("step", _NUMBER, nullable=False),
        sa.Column("task", sa.String(128), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["step"],
            ["conversation_step.number"],
            name="fk_conversation_context_step_conversation_step",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("step", "task", name="pk_conversation_context"),
    )
    op.create_index("ix_conversation_context_created_on", "conversation_context", ["created_on"])
    op.create_table(
        "audit_entry",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("conversation", sa.String(200), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit_entry"),
        sa.UniqueConstraint("id", name="uq_audit_entry_id"),
    )
    op.create_index("ix_audit_entry_conversation", "audit_entry", ["conversation", "sequence"])
    op.create_index("ix_audit_entry_created_on", "audit_entry", ["created_on"])
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
    )
    op.bulk_insert(head, [{"id": 1, "count": 0, "hash": "0" * 64}])
