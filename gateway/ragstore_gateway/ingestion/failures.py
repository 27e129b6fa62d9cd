"""Why a document cannot be ingested, as its ingestion and the log report it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final, Self

from ragstore.kit.errors import ServiceError
from ragstore_gateway.ingestion.errors import IngestionLimit
from ragstore_gateway.ingestion.retries import may_succeed

INTERNAL: Final = "Internal error"


@dataclass(frozen=True, slots=True)
class IngestionFailure:
    """A failure.

    Attributes:
        message: for the status of the ingestion, without content.
        cause: for the log, without content.
        is_final: whether a further attempt would fail, too.
    """

    message: str
    cause: str
    is_final: bool

    @classmethod
    def of(cls, error: Exception) -> Self:
        """The failure that an exception means."""
        if isinstance(error, ServiceError):
            return cls(error.detail, error.code, not may_succeed(error, 1))
        if isinstance(error, IngestionLimit):
            return cls(str(error), "limit", True)
        # Without its text, which may contain a part of the document.
        where = traceback.extract_tb(error.__traceback__)[-1]
        cause = f"{type(error).__name__} at {where.filename.rpartition('/')[2]}:{where.lineno}"
        return cls(INTERNAL, cause, True)
