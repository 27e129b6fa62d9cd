"""The tables of keyword indexes. The words of an index are in a table of its own, which `WordTable` makes."""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import ID_LENGTH, Base


class KeywordIndexRow(Base):
    """The keyword index of a vector collection."""

    __tablename__ = "keyword_index"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    collection_id: Mapped[str] = mapped_column(
        String(64), ForeignKey("vector_collection.id", ondelete="CASCADE"), unique=True
    )
    last_number: Mapped[int] = mapped_column(BigInteger)
    """The number of the chunk that was added last."""
    chunks: Mapped[int] = mapped_column(BigInteger)
    words: Mapped[int] = mapped_column(BigInteger)
    """The number of words of all chunks."""


class KeywordChunkRow(Base):
    """A chunk of a visible revision. `WordTable` has its words under its number."""

    __tablename__ = "keyword_chunk"
    __table_args__ = (Index("ix_keyword_chunk_document", "index_id", "document_id"),)

    index_id: Mapped[int] = mapped_column(
        Integer, ForeignKey("keyword_index.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    document_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    chunk_id: Mapped[str] = mapped_column(String(ID_LENGTH))
    """Its id in the vector collection."""
    words: Mapped[int]
