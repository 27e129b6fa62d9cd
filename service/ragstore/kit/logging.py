"""Structured logs: JSON lines in production, readable lines in a terminal."""

from __future__ import annotations

import atexit
import logging
import sys
from typing import Any, Final, TextIO, cast

import structlog

from ragstore.kit.log_writer import Event, EventLogger, LineFile, LogWriter
from ragstore.kit.metrics import dropped_lines

AUDIT: Final = "audit"
"""Name of the audit logger: who did what, at every log level."""


def configure(level_name: str, log_format: str, metric_prefix: str) -> None:
    """Configure logging for the process. A thread writes the lines until the process ends.

    Args:
        level_name: minimum log level: `debug`, `info`, `warning` or `error`.
        log_format: `json`, `console`, or `auto` for `console` on a terminal and `json` elsewhere.
        metric_prefix: the service's prefix for metrics.
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[level_name.upper()]
    render: Any = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()

    def line_of(event: Event) -> str:
        return str(render(None, str(event.get("level", "")), event))

    writer = LogWriter(sys.stderr, line_of, _log_dropped, dropped_lines(metric_prefix))
    atexit.register(writer.close)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    log, audit_log = EventLogger(writer, "log"), EventLogger(writer, "audit")
    structlog.configure(
        # No renderer: the writer's thread renders.
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: audit_log if AUDIT in names else log,
        cache_logger_on_first_use=True,
    )
    # Loggers use only `write` and `flush` of a file.
    lines = cast("TextIO", LineFile(writer))
    handler = logging.StreamHandler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
            foreign_pre_chain=shared,
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    logging.captureWarnings(True)
    # Libraries may log the data that they handle, so only their warnings and errors are logged.
    logging.getLogger("uvicorn").setLevel(max(level, logging.WARNING))


def _log_dropped(lines: int, audit_lines: int) -> None:
    structlog.get_logger(__name__).warning("log lines were dropped", lines=lines, audit_lines=audit_lines)
