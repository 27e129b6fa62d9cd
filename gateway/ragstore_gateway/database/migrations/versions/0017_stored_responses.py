"""Stored responses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the table of stored responses."""
    op.create_table(
        "stored_response",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("thread", sa.String(64), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("key", sa.String(128), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("input", sa.LargeBinary(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_stored_response"),
    )
    op.create_index("ix_stored_response_created_on", "stored_response", ["created_on"])
    op.create_index("ix_stored_response_thread", "stored_response", ["thread", "created_on"])
