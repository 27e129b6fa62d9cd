"""The key that uploaded a file."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column. The owners of earlier files are unknown."""
    op.add_column("file", sa.Column("created_by", sa.String(128), nullable=True))
