"""Files that are uploaded in parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the tables of uploads and of their parts."""
    time = sa.DateTime(timezone=True)
    op.create_table(
        "upload",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("filename", sa.String(512), nullable=False),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("media_type", sa.String(255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("expire_seconds", sa.Integer(), nullable=True),
        sa.Column("created_on", time, nullable=False),
        sa.Column("created_by", sa.String(128), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("file_id", sa.String(64), nullable=True),
    )
    op.create_index("ix_upload_created_on", "upload", ["created_on"])
    op.create_table(
        "upload_part",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("upload_id", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["upload_id"], ["upload.id"], "fk_upload_part_upload_id_upload", ondelete="CASCADE"),
    )
    op.create_index("ix_upload_part_upload_id", "upload_part", ["upload_id", "bytes"])
