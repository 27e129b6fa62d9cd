"""The tables of sources: runs, the documents that runs made, and schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.claims.tables import RunRow
from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC

SOURCE_LENGTH: Final = 128
"""Maximum length of a source's name."""


class SourceRunRow(RunRow):
    """A run of a source."""

    __tablename__ = "source_run"

    base_id: Mapped[str] = mapped_column(String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"))
    source: Mapped[str] = mapped_column(String(SOURCE_LENGTH))
    """Its name. Runs of a source that the configuration does not have any more are kept."""
    base_version: Mapped[int]
    """The version of the base whose configuration it uses."""
    trigger: Mapped[str] = mapped_column(String(16))
    """`manual` or `schedule`."""
    added: Mapped[int]
    changed: Mapped[int]
    unchanged: Mapped[int]
    missing: Mapped[int]
    removed: Mapped[int]
    failed: Mapped[int]
    skipped: Mapped[int]
    chunks: Mapped[int]
    """The number of chunks that it embedded."""

    __table_args__ = (
        # Of several claims of a source, on whichever replicas, one succeeds.
        Index(
            "uq_source_run_running",
            "base_id",
            "source",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        Index("ix_source_run_started", "base_id", "source", "started_on", "id"),
        Index("ix_source_run_state", "state"),
    )


class SourceDocumentRow(Base):
    """A document of a knowledge base that a source made: a page of a website, or an uploaded file.

    It belongs to the source as long as `ingestion_id` is the last ingestion of the document.
    """

    __tablename__ = "source_document"
    __table_args__ = (Index("ix_source_document_source", "base_id", "source"),)

    document_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("document.id", ondelete="CASCADE"), primary_key=True
    )
    base_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    source: Mapped[str] = mapped_column(String(SOURCE_LENGTH))
    location: Mapped[str] = mapped_column(Text)
    """The page's URL, or the file's name."""
    ingestion_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    """The last ingestion that the source requested."""
    content_hash: Mapped[str] = mapped_column(String(64))
    """Of the content that is stored; empty until its vectors are."""
    etag: Mapped[str] = mapped_column(Text)
    last_modified: Mapped[str] = mapped_column(Text)
    links: Mapped[list[Any]]
    """The URLs that the page links to: a response 304 has no body."""
    characters: Mapped[int]
    """The length of its text."""
    title: Mapped[str] = mapped_column(Text)
    media_type: Mapped[str] = mapped_column(String(255))
    missed_runs: Mapped[int]
    """The number of complete runs in a row that did not find it."""
    seen_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    """When a run found it last."""
    changed_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    """When its content was stored last."""


class SourceScheduleRow(Base):
    """The schedule of a source that is enabled and has a cron expression."""

    __tablename__ = "source_schedule"
    __table_args__ = (Index("ix_source_schedule_next", "next_on"),)

    base_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"), primary_key=True
    )
    source: Mapped[str] = mapped_column(String(SOURCE_LENGTH), primary_key=True)
    cron: Mapped[str] = mapped_column(String(255))
    next_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    """When it runs next. If that is past, it runs once, however many times were missed."""
    interruptions: Mapped[int]
    """How often in a row a scheduled run was interrupted."""
