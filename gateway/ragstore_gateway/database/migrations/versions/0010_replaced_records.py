"""Removals of records of others, which a document of a shared collection replaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the URL of the records."""
    op.add_column("vector_removal", sa.Column("url", sa.Text(), nullable=True))
