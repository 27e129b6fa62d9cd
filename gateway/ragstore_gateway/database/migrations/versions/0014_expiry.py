"""The expiry of vector stores and files, and names of vector stores that repeat."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the name that a vector store was given, its expiry, and the expiry of a file."""
    time = sa.DateTime(timezone=True)
    op.add_column("vector_store", sa.Column("name", sa.String(128), nullable=True))
    op.add_column("vector_store", sa.Column("expire_days", sa.Integer(), nullable=True))
    op.add_column("vector_store", sa.Column("active_on", time, nullable=True))
    op.add_column("vector_store", sa.Column("expired_on", time, nullable=True))
    op.add_column("file", sa.Column("expires_on", time, nullable=True))
    op.create_index("ix_vector_store_expire_days", "vector_store", ["expire_days"])
    op.create_index("ix_file_expires", "file", ["expires_on"])
