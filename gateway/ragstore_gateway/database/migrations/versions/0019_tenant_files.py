"""Tenants of files and uploads, and an index for the sizes of files of sources."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the tenant of a file and of an upload, which is empty for earlier ones."""
    for table in ("file", "upload"):
        op.add_column(table, sa.Column("tenant", sa.String(64), nullable=False, server_default=sa.text("''")))
    op.create_index("ix_file_tenant", "file", ["tenant", "bytes"])
    op.create_index("ix_source_file_bytes", "source_file", ["base_id", "bytes"])
