"""The table of stored responses."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlalchemy import Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import Base, DateTimeUTC

RESPONSE_ID_LENGTH: Final = 64


class StoredResponseRow(Base):
    """A response, with the items of its request. Both are content."""

    __tablename__ = "stored_response"

    id: Mapped[str] = mapped_column(String(RESPONSE_ID_LENGTH), primary_key=True)
    thread: Mapped[str] = mapped_column(String(RESPONSE_ID_LENGTH))
    """Id of the first response of its conversation."""
    previous: Mapped[str] = mapped_column(String(RESPONSE_ID_LENGTH))
    """Id of the response that it continues; empty for the first one."""
    key: Mapped[str] = mapped_column(String(128))
    """Name of the caller's key; empty without keys."""
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True), index=True)
    input: Mapped[bytes] = mapped_column(LargeBinary)
    """The items of its request, as a JSON array."""
    response: Mapped[bytes] = mapped_column(LargeBinary)
    """The response, as JSON."""

    __table_args__ = (Index("ix_stored_response_thread", thread, created_on),)
