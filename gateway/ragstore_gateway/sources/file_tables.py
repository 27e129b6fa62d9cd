"""The table of uploaded files."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC
from ragstore_gateway.sources.tables import SOURCE_LENGTH

FILE_NAME_LENGTH = 255
"""Maximum length of a file's name."""


class SourceFileRow(Base):
    """A file of an upload source. Its name identifies it."""

    __tablename__ = "source_file"
    __table_args__ = (Index("ix_source_file_bytes", "base_id", "bytes"),)

    base_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"), primary_key=True
    )
    source: Mapped[str] = mapped_column(String(SOURCE_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(FILE_NAME_LENGTH), primary_key=True)
    media_type: Mapped[str] = mapped_column(String(255))
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    bytes: Mapped[int] = mapped_column(BigInteger)
    content_hash: Mapped[str] = mapped_column(String(64))
    """SHA-256 of its media type and its content."""
    uploaded_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
