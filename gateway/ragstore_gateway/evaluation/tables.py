"""The table of runs of question sets."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.claims.tables import RunRow
from ragstore_gateway.database.base import ID_LENGTH

REASON_LENGTH = 64


class QuestionRunRow(RunRow):
    """A run of a question set. It is `running`, `completed`, `failed`, `cancelled` or `interrupted`."""

    __tablename__ = "question_run"

    set_id: Mapped[str] = mapped_column(String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"))
    set_version: Mapped[int]
    base_version: Mapped[int]
    """The version of the knowledge base that it searches."""
    reason: Mapped[str] = mapped_column(String(REASON_LENGTH))
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

    __table_args__ = (
        # Of several starts of a set, on whichever replicas, one succeeds.
        Index(
            "uq_question_run_running",
            "set_id",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        Index("ix_question_run_started", "set_id", "started_on", "id"),
    )
