"""The columns of rows that processes claim, and the table of the processes."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Float, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC


class ExecutorRow(Base):
    """A process that has claimed rows, and its lease."""

    __tablename__ = "executor"

    id: Mapped[str] = mapped_column(String(255), primary_key=True)
    lease_until: Mapped[float] = mapped_column(Float(53))
    """The database's time, in seconds since 1970."""


class ClaimedRow(Base):
    """Work that belongs to the process that has claimed it, as long as that process has a lease."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    owner: Mapped[str] = mapped_column(String(255))
    """The process that works on it, or has ended it."""
    finished_on: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))


class RunRow(ClaimedRow):
    """Work that is interrupted when its process ends, and has ended if it has a state other than `running`."""

    __abstract__ = True

    reason: Mapped[str] = mapped_column(Text)
    """Why it is not `completed`; empty otherwise."""
    started_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
