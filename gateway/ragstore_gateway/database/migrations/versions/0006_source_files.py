"""Files of upload sources."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "source_file",
        sa.Column("base_id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(128), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("media_type", sa.String(255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("uploaded_on", DateTimeUTC(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["base_id"], ["configuration.id"], name="fk_source_file_base_id_configuration", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("base_id", "source", "name", name="pk_source_file"),
    )
