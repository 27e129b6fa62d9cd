"""The tables of documents, ingestions and vector collections."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, false, text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.claims.tables import ClaimedRow
from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC

COLLECTION_LENGTH = 64
"""Maximum length of the name of a vector collection."""

NAME_LENGTH = 512
"""Maximum length of a document's name."""


class DocumentRow(Base):
    """A document of a knowledge base. Searches find it if it has a current revision."""

    __tablename__ = "document"
    __table_args__ = (
        UniqueConstraint("base_id", "name", name="uq_document_name"),
        Index("ix_document_created", "base_id", "created_on", "id"),
        Index("ix_document_bytes", "base_id", "bytes"),
        Index("ix_document_last_ingestion", "last_ingestion"),
    )

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    base_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    current_revision: Mapped[str | None] = mapped_column(String(ID_LENGTH))
    """The ingestion whose chunks searches find; None until the first one completes."""
    current_sequence: Mapped[int]
    """The sequence number of that ingestion."""
    last_sequence: Mapped[int]
    """The sequence number of the ingestion that was accepted last."""
    last_ingestion: Mapped[str] = mapped_column(String(ID_LENGTH))
    media_type: Mapped[str] = mapped_column(String(255))
    bytes: Mapped[int] = mapped_column(BigInteger)
    content_hash: Mapped[str] = mapped_column(String(64))
    chunks: Mapped[int]
    own_metadata: Mapped[dict[str, Any] | None] = mapped_column("metadata")
    """Metadata of its chunks beside the gateway's keys; None for none."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    modified_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))


class DocumentTextRow(Base):
    """The extracted text of a revision: of a document's current one, or of an ingestion in progress."""

    __tablename__ = "document_text"

    revision: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    document_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("document.id", ondelete="CASCADE"), index=True
    )
    extracted: Mapped[bytes] = mapped_column(LargeBinary)
    """An `Extracted` as MessagePack."""


class IngestionRow(ClaimedRow):
    """A job: the ingestion of a document, or of a document's kept text into a new collection."""

    __tablename__ = "ingestion"
    __table_args__ = (
        Index("ix_ingestion_state", "state", "created_on"),
        Index("ix_ingestion_base", "base_id", "state"),
        Index("ix_ingestion_document", "document_id"),
        Index("ix_ingestion_finished", "finished_on", "id"),
        Index("ix_ingestion_queue", "owner", "state", "base_id", "created_on"),
    )

    kind: Mapped[str] = mapped_column(String(16))
    """`ingest` or `reindex`."""
    base_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    kb_id: Mapped[str] = mapped_column(String(128))
    document_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    document_name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    revision: Mapped[str] = mapped_column(String(ID_LENGTH))
    """The revision of the chunks that it writes."""
    sequence: Mapped[int]
    message: Mapped[str] = mapped_column(Text)
    """Why it failed."""
    unchanged: Mapped[bool]
    """Whether the document has this content already."""
    targets: Mapped[list[Any]]
    """The collections that chunks are being written to."""
    written: Mapped[dict[str, Any]]
    """The collections that all chunks were written to, with the number of chunks."""
    chunks: Mapped[int]
    """The number of chunks to embed; when it has ended, the number of the document's chunks."""
    chunks_embedded: Mapped[int]
    media_type: Mapped[str] = mapped_column(String(255))
    bytes: Mapped[int] = mapped_column(BigInteger)
    content_hash: Mapped[str] = mapped_column(String(64))
    own_metadata: Mapped[dict[str, Any] | None] = mapped_column("metadata")
    """The metadata of the document that it writes; None for none."""
    owner: Mapped[str] = mapped_column(String(255), server_default=text("''"))
    attempts: Mapped[int]
    """How often a process claimed it. A process that hands it over takes its own claim back."""
    waiting_for: Mapped[str] = mapped_column(String(64), server_default=text("''"))
    """The code of the error for whose end a call of it waits; empty for none."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    started_on: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))


class IngestionPayloadRow(Base):
    """Bytes that an ingestion needs until it ends: the document, and the finished parts of a large one."""

    __tablename__ = "ingestion_payload"

    ingestion_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("ingestion.id", ondelete="CASCADE"), primary_key=True
    )
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    """`content`, `chunks` or `vectors`."""
    collection_id: Mapped[str] = mapped_column(String(COLLECTION_LENGTH), primary_key=True)
    """The collection of chunks and vectors; empty for the content."""
    position: Mapped[int] = mapped_column(primary_key=True)
    """The index of a batch of vectors; 0 for the others."""
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """For vectors: empty if the engine has them."""


class CollectionRow(Base):
    """A collection of an engine, which holds a base's chunks of one model and one chunking."""

    __tablename__ = "vector_collection"
    __table_args__ = (Index("ix_vector_collection_base", "base_id", "state"),)

    id: Mapped[str] = mapped_column(String(COLLECTION_LENGTH), primary_key=True)
    base_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    base_version: Mapped[int]
    """Newest version of the base whose vectors these are."""
    state: Mapped[str] = mapped_column(String(16))
    """`active`: searches use it. `building`: it will be active when it has every document."""
    fingerprint: Mapped[str] = mapped_column(String(64))
    provider: Mapped[str] = mapped_column(String(32))
    embedding_parameters: Mapped[dict[str, Any]]
    store_type: Mapped[str] = mapped_column(String(32))
    store_parameters: Mapped[dict[str, Any]]
    chunking: Mapped[dict[str, Any]]
    dimension: Mapped[int | None]
    """The dimension of its vectors; None until the first one is known."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))


class CollectionDocumentRow(Base):
    """All chunks of a revision of a document are in a collection."""

    __tablename__ = "vector_collection_document"

    collection_id: Mapped[str] = mapped_column(
        String(COLLECTION_LENGTH), ForeignKey("vector_collection.id", ondelete="CASCADE"), primary_key=True
    )
    document_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("document.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    revision: Mapped[str] = mapped_column(String(ID_LENGTH))
    chunks: Mapped[int]
    has_keywords: Mapped[bool] = mapped_column(server_default=false())
    """Whether they are in the keyword index of the collection."""


class RemovalRow(Base):
    """Vectors to remove: of a collection, of a document, or of one revision. Repeated until it succeeds."""

    __tablename__ = "vector_removal"
    __table_args__ = (Index("ix_vector_removal_due", "due_on"), Index("ix_vector_removal_base", "base_id"))

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    base_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    collection_id: Mapped[str] = mapped_column(String(COLLECTION_LENGTH))
    store_type: Mapped[str] = mapped_column(String(32))
    store_parameters: Mapped[dict[str, Any]]
    dimension: Mapped[int]
    document_id: Mapped[str | None] = mapped_column(String(ID_LENGTH))
    """None for the whole collection."""
    revision: Mapped[str | None] = mapped_column(String(ID_LENGTH))
    """None for all revisions."""
    url: Mapped[str | None] = mapped_column(Text)
    """The URL of records of others that the document replaces; None for chunks of the gateway."""
    attempts: Mapped[int]
    due_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
