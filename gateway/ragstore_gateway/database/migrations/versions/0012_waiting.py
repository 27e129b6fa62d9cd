"""The reason why an ingestion waits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the code of the error for whose end an ingestion waits."""
    op.add_column("ingestion", sa.Column("waiting_for", sa.String(64), nullable=False, server_default=sa.text("''")))
