"""The table of runs of question sets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC

REASON_LENGTH = 64


class QuestionRunRow(Base):
    """A run of a question set. It has ended if it has a state other than `running`."""

    __tablename__ = "question_run"

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    set_id: Mapped[str] = mapped_column(String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"))
    set_version: Mapped[int]
    base_version: Mapped[int]
    """The version of the knowledge base that it searches."""
    state: Mapped[str] = mapped_column(String(16))
    """`running`, `completed`, `failed`, `cancelled` or `interrupted`."""
    reason: Mapped[str] = mapped_column(String(REASON_LENGTH))
    """Why it is not `completed`; empty otherwise."""
    owner: Mapped[str] = mapped_column(String(255))
    """The process that executes it. When the lease of the process expires, the run is interrupted."""
    questions: Mapped[int]
    """The number of questions with expected passages."""
    searched: Mapped[int] = mapped_column(server_default=text("0"))
    """The number of these questions whose searches have ended, as it was last written while the run was in progress."""
    figures: Mapped[dict[str, Any] | None]
    """A `RunFigures`, of a completed run."""
    outcomes: Mapped[list[Any]] = mapped_column(deferred=True)
    """A `StoredOutcome` for each of these questions, of a completed run."""
    compared_with: Mapped[str] = mapped_column(String(ID_LENGTH))
    """The completed run before; empty without one."""
    won: Mapped[int]
    lost: Mapped[int]
    started_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    finished_on: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))

    __table_args__ = (
        # Of several starts of a set, on whichever replicas, one succeeds.
        Index(
            "uq_question_run_running",
            set_id,
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        Index("ix_question_run_started", set_id, started_on, id),
    )
