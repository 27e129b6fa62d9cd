"""Calls of DBOS about many jobs, and what DBOS uses of this process: the file of jobs, and the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
import structlog
from sqlalchemy import Engine, event

QUEUE: Final = "ingestion"

_log = structlog.get_logger(__name__)


def owners_of_jobs(engine: Any) -> dict[str, str]:
    """The processes that have jobs, by job.

    Args:
        engine: `DBOS`.
    """
    found = engine.list_workflows(status="PENDING", queue_name=QUEUE, load_input=False, load_output=False)
    return {workflow.workflow_id: workflow.executor_id for workflow in found if workflow.executor_id}


def states_of_jobs(engine: Any, job_ids: list[str]) -> dict[str, str]:
    """The engine's states of jobs, by job.

    Args:
        engine: `DBOS`.
        job_ids: the jobs.
    """
    found = engine.list_workflows(workflow_ids=job_ids, load_input=False, load_output=False)
    return {workflow.workflow_id: workflow.status for workflow in found}


def resume_jobs(engine: Any, executor_id: str, chosen: set[str] | None = None) -> int:
    """Put the jobs of a process back in the queue.

    Args:
        engine: `DBOS`, or a `DBOSClient`.
        executor_id: the process.
        chosen: ids of jobs; None for all of the process.
    """
    found = engine.list_workflows(status="PENDING", executor_id=executor_id, load_input=False, load_output=False)
    ids = [each.workflow_id for each in found if chosen is None or each.workflow_id in chosen]
    if ids:
        engine.resume_workflows(ids, queue_name=QUEUE)
    return len(ids)


def sqlite_engine(path: Path) -> Engine:
    """An engine for SQLite. DBOS 3.4's own one syncs each transaction to the disk, with a rollback journal.

    After a loss of power, the last steps of jobs may be missing here. They run again, and change nothing: what was
    accepted and what is finished is in the gateway's database.

    Args:
        path: the file.
    """
    engine = sa.create_engine(f"sqlite:///{path}", hide_parameters=True)

    def configure(connection: Any, _: object) -> None:
        # As DBOS's own engine does.
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("busy_timeout=30000", "foreign_keys=ON", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", configure)
    return engine


class _EngineLog(logging.Handler):
    """DBOS's log as lines of the gateway's. Exceptions are reduced to their types."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        log = _log.error if record.levelno >= logging.ERROR else _log.warning
        log("job engine", source=f"{record.module}:{record.lineno}", error=kind)


def configure_logging() -> None:
    """Replace DBOS's own handler, which writes to the terminal."""
    logger = logging.getLogger("dbos")
    logger.handlers[:] = [_EngineLog()]
    logger.propagate = False
