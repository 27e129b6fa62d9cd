"""The tables of files, and of what vector stores have beyond knowledge bases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC
from ragstore_gateway.keys import TENANT_LENGTH

FILE_ID_LENGTH = 64
NAME_LENGTH = 512
KEY_LENGTH = 128


class FileRow(Base):
    """An uploaded file. It need not be in a vector store."""

    __tablename__ = "file"
    __table_args__ = (
        Index("ix_file_created", "created_on", "id"),
        Index("ix_file_purpose", "purpose", "created_on", "id"),
        Index("ix_file_bytes", "bytes"),
        Index("ix_file_expires", "expires_on"),
        Index("ix_file_tenant", "tenant", "bytes"),
    )

    id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH), primary_key=True)
    filename: Mapped[str] = mapped_column(String(NAME_LENGTH))
    purpose: Mapped[str] = mapped_column(String(32))
    media_type: Mapped[str] = mapped_column(String(255))
    size: Mapped[int] = mapped_column("bytes", BigInteger)
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    created_by: Mapped[str | None] = mapped_column(String(KEY_LENGTH))
    """Name of the key that uploaded it; empty without keys, None for files of versions that did not store it."""
    tenant: Mapped[str] = mapped_column(String(TENANT_LENGTH), server_default=text("''"))
    """The tenant of that key; empty for none."""
    expires_on: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)


class UploadRow(Base):
    """A file that is uploaded in parts."""

    __tablename__ = "upload"
    __table_args__ = (Index("ix_upload_created_on", "created_on"),)

    id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH), primary_key=True)
    filename: Mapped[str] = mapped_column(String(NAME_LENGTH))
    purpose: Mapped[str] = mapped_column(String(32))
    media_type: Mapped[str] = mapped_column(String(255))
    size: Mapped[int] = mapped_column("bytes", BigInteger)
    """The size that its parts must have together."""
    expire_seconds: Mapped[int | None]
    """Seconds after which the file is deleted; None for never."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    created_by: Mapped[str] = mapped_column(String(KEY_LENGTH))
    """Name of its key; empty without keys."""
    tenant: Mapped[str] = mapped_column(String(TENANT_LENGTH), server_default=text("''"))
    """The tenant of that key; empty for none."""
    state: Mapped[str] = mapped_column(String(16))
    file_id: Mapped[str | None] = mapped_column(String(FILE_ID_LENGTH))
    """The file that it has become."""


class UploadPartRow(Base):
    """A part of an upload that has not ended."""

    __tablename__ = "upload_part"
    __table_args__ = (Index("ix_upload_part_upload_id", "upload_id", "bytes"),)

    id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH), primary_key=True)
    upload_id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH), ForeignKey("upload.id", ondelete="CASCADE"))
    size: Mapped[int] = mapped_column("bytes", BigInteger)
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)


class VectorStoreRow(Base):
    """Properties of a vector store that a knowledge base does not have."""

    __tablename__ = "vector_store"
    __table_args__ = (Index("ix_vector_store_expire_days", "expire_days"),)

    base_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"), primary_key=True
    )
    pairs: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Pairs of a caller's own."""
    name: Mapped[str | None] = mapped_column(String(128))
    """The name that it was given, if another knowledge base had it; None otherwise."""
    expire_days: Mapped[int | None]
    """Number of days without activity after which it expires; None for never."""
    active_on: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))
    """When it was last active, as far as it was recorded. Only kept for one that expires."""
    expired_on: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))
    """When it expired."""


class VectorStoreFileRow(Base):
    """A document of a knowledge base that is a file in a vector store, or has attributes."""

    __tablename__ = "vector_store_file"
    __table_args__ = (
        UniqueConstraint("base_id", "file_id", name="uq_vector_store_file"),
        Index("ix_vector_store_file_file", "file_id"),
    )

    document_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("document.id", ondelete="CASCADE"), primary_key=True
    )
    base_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    file_id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH))
    """Id of the uploaded file; the id of the document if it was ingested without one."""
    filename: Mapped[str] = mapped_column(String(NAME_LENGTH))
    attributes: Mapped[dict[str, Any]]


class FileBatchRow(Base):
    """Files that were attached to a vector store with one call."""

    __tablename__ = "file_batch"

    id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH), primary_key=True)
    base_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"), index=True
    )
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))


class FileBatchFileRow(Base):
    """A file of a batch."""

    __tablename__ = "file_batch_file"

    batch_id: Mapped[str] = mapped_column(
        String(FILE_ID_LENGTH), ForeignKey("file_batch.id", ondelete="CASCADE"), primary_key=True
    )
    file_id: Mapped[str] = mapped_column(String(FILE_ID_LENGTH), primary_key=True)
    ingestion_id: Mapped[str | None] = mapped_column(String(ID_LENGTH))
    """Its ingestion; None if it was not accepted."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    bytes: Mapped[int] = mapped_column(BigInteger)
    error: Mapped[str] = mapped_column(Text)
    """Why it was not accepted; empty otherwise."""
