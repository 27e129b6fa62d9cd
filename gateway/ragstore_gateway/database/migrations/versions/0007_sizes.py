"""Indexes for sums and lists whose time would grow with what is stored."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("ix_file_bytes", "file", ["bytes"])
    op.create_index("ix_file_purpose", "file", ["purpose", "created_on", "id"])
    op.create_index("ix_document_created", "document", ["base_id", "created_on", "id"])
    op.create_index("ix_document_bytes", "document", ["base_id", "bytes"])
    op.create_index("ix_document_last_ingestion", "document", ["last_ingestion"])
    op.create_index("ix_ingestion_finished", "ingestion", ["finished_on", "id"])
