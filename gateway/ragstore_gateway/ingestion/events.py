"""Log events of ingestions: accepted, started, ended; and of documents: deleted. Each has ids, and no content."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.database import after_commit
from ragstore_gateway.ingestion.tables import IngestionRow

MAX_LISTED: Final = 100
"""Maximum number of ids in a log line."""

_log: Final = structlog.get_logger(__name__)


def ids_of(row: IngestionRow) -> dict[str, str]:
    """The fields by which the log lines of an ingestion are found."""
    return {"ingestion": row.id, "base": row.base_id, "document": row.document_id}


def accepted(session: AsyncSession, row: IngestionRow, request_id: str) -> None:
    """Log when the transaction is committed that a document is in the queue.

    Args:
        session: the transaction.
        row: the ingestion.
        request_id: id of the request that sent the document; empty for none.
    """
    # Documents of several requests may share a transaction, whose task has the id of the first one.
    own = {"request_id": request_id} if request_id else {}
    line = {**ids_of(row), "kind": row.kind, "bytes": row.bytes, **own}
    after_commit(session, partial(_log.info, "ingestion accepted", **line))


def started(row: IngestionRow) -> None:
    """Log that this process works on an ingestion."""
    waited = (datetime.now(UTC) - row.created_on).total_seconds()
    _log.info(
        "ingestion started", **ids_of(row), kind=row.kind, attempt=row.attempts, seconds_since_accepted=round(waited, 1)
    )


def ended(session: AsyncSession, row: IngestionRow, state: str, *, error: str = "", step: str = "") -> None:
    """Log when the transaction is committed that an ingestion has ended.

    Args:
        session: the transaction.
        row: the ingestion.
        state: `completed`, `unchanged`, `failed` or `cancelled`.
        error: the code of the error that ended it, or the reason in one sentence; empty for none.
        step: the step in which it failed; empty if it is not known.
    """
    line: dict[str, object] = {**ids_of(row), "kind": row.kind, "state": state, "chunks": row.chunks}
    line["seconds_since_accepted"] = round((datetime.now(UTC) - row.created_on).total_seconds(), 1)
    line.update({name: value for name, value in (("error", error), ("step", step)) if value})
    level = logging.WARNING if state == "failed" else logging.INFO
    after_commit(session, partial(_log.log, level, "ingestion ended", **line))


def cancelled_in_queue(session: AsyncSession, ingestion_ids: Sequence[str], reason: str) -> None:
    """Log when the transaction is committed that ingestions were cancelled before they began.

    Args:
        session: the transaction.
        ingestion_ids: the ingestions.
        reason: why, in one sentence.
    """
    for start in range(0, len(ingestion_ids), MAX_LISTED):
        ids = list(ingestion_ids[start : start + MAX_LISTED])
        after_commit(session, partial(_log.info, "ingestions cancelled", ingestions=ids, error=reason))


def documents_deleted(session: AsyncSession, base_id: str, document_ids: Sequence[str]) -> None:
    """Log when the transaction is committed that documents were deleted.

    Args:
        session: the transaction.
        base_id: the knowledge base.
        document_ids: the documents.
    """
    for start in range(0, len(document_ids), MAX_LISTED):
        ids = list(document_ids[start : start + MAX_LISTED])
        after_commit(session, partial(_log.info, "documents deleted", base=base_id, documents=ids))
