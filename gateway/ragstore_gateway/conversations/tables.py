"""The tables of conversations and of the audit ledger."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.conversations.conversation_id import MAX_LENGTH
from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC

HASH_LENGTH: Final = 64
HEAD_ID: Final = 1
"""Id of the only row of `audit_head`."""


class StepRow(Base):
    """A step of a conversation, without content."""

    __tablename__ = "conversation_step"

    # SQLite numbers rows only in a column of its type INTEGER.
    number: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    id: Mapped[str] = mapped_column(String(ID_LENGTH), unique=True)
    conversation: Mapped[str] = mapped_column(String(MAX_LENGTH))
    key: Mapped[str] = mapped_column(String(128))
    """Name of the caller's key; empty without keys."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    request_id: Mapped[str] = mapped_column(String(128))
    assistant: Mapped[str] = mapped_column(String(128))
    assistant_version: Mapped[int]
    data: Mapped[dict[str, Any]]
    """The traces by key."""

    __table_args__ = (Index("ix_conversation_step_conversation", conversation, number),)


class ContextRow(Base):
    """The context of a task of a step. It is content, and is kept only if a setting says so."""

    __tablename__ = "conversation_context"

    step: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"),
        ForeignKey("conversation_step.number", ondelete="CASCADE"),
        primary_key=True,
    )
    task: Mapped[str] = mapped_column(String(128), primary_key=True)
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True), index=True)
    text: Mapped[str] = mapped_column(Text)


class AuditEntryRow(Base):
    """An entry of the audit ledger. It is never changed."""

    __tablename__ = "audit_entry"

    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    id: Mapped[str] = mapped_column(String(ID_LENGTH), unique=True)
    conversation: Mapped[str] = mapped_column(String(MAX_LENGTH))
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True), index=True)
    body: Mapped[str] = mapped_column(Text)
    """All fields as canonical JSON; the other columns but `hash` repeat some of them, for filters."""
    hash: Mapped[str] = mapped_column(String(HASH_LENGTH))

    __table_args__ = (Index("ix_audit_entry_conversation", conversation, sequence),)


class AuditHeadRow(Base):
    """The end of the ledger, apart from its entries. Its row is locked while entries are appended."""

    __tablename__ = "audit_head"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    count: Mapped[int] = mapped_column(BigInteger)
    hash: Mapped[str] = mapped_column(String(HASH_LENGTH))
