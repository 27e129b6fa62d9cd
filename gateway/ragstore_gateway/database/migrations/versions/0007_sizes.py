"""Indexes for sums and lists whose time would grow with what is stored."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("ix_file_bytes", "file", ["bytes"])
