"""The metadata that callers give to documents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the metadata of a document, and of an ingestion that writes it."""
    for table in ("document", "ingestion"):
        op.add_column(table, sa.Column("metadata", sa.JSON(), nullable=True))
