"""`Retries`: repeats the calls of an ingestion that failed because a service was unavailable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.database.repetition import backoff
from ragstore_gateway.errors import (
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingRejected,
    EmbeddingTimeout,
    EmbeddingUnavailable,
    ExtractionUnavailable,
    StoreRejected,
    StoreUnavailable,
    VaultUnavailable,
)
from ragstore_gateway.ingestion.errors import IngestionAbandoned

TRANSIENT: Final = (
    EmbeddingRateLimited,
    EmbeddingTimeout,
    EmbeddingUnavailable,
    ExtractionUnavailable,
    StoreUnavailable,
    VaultUnavailable,
)
"""Errors that end by themselves: the call is repeated as long as the settings allow."""

PERMANENT: Final = (EmbeddingRejected, StoreRejected)
"""Errors that the same call would have again. They are below others, which are repeated."""

MAX_FAILED_ATTEMPTS: Final = 3
"""Attempts after any other `EmbeddingFailed`: a response without usable vectors, such as the page of a proxy."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Retries:
    """Repeats calls, with exponential backoff.

    Args:
        max_seconds: how long a call is repeated, from its first failure: the time until then may be a wait for the
            slots of a provider, which other calls have.
    """

    def __init__(self, max_seconds: float) -> None:
        self._max_seconds = max_seconds

    async def call(
        self,
        work: Callable[[], Awaitable[T]],
        is_needed: Callable[[], Awaitable[bool]],
        waits: Callable[[str], Awaitable[None]],
        step: Callable[[], str] = lambda: "",
    ) -> T:
        """Make a call, and repeat it after transient errors.

        Args:
            work: the call.
            is_needed: whether the ingestion has not ended; awaited before each retry.
            waits: called with the code of the error while the call is repeated, and with an empty one after it.
            step: returns the step that the call is in, for the log.

        Raises:
            IngestionAbandoned: a retry is not needed any more.
            ServiceError: it failed permanently, or for too long.
        """
        end = float("inf")
        attempt = 0
        waiting_for = ""
        while True:
            try:
                result = await work()
            except ServiceError as error:
                attempt += 1
                if attempt == 1:
                    end = time.monotonic() + self._max_seconds
                wait = backoff(attempt, error.retry_after)
                if not may_succeed(error, attempt) or time.monotonic() + wait > end:
                    raise
                _log.info(
                    "ingestion waits",
                    waiting_for=error.code,
                    step=step(),
                    attempt=attempt,
                    seconds=round(wait, 1),
                    **({"cause": error.cause} if error.cause else {}),
                )
                if waiting_for != error.code:
                    waiting_for = error.code
                    await waits(waiting_for)
            else:
                if waiting_for:
                    await waits("")
                return result
            await asyncio.sleep(wait)
            if not await is_needed():
                raise IngestionAbandoned


def may_succeed(error: ServiceError, attempt: int) -> bool:
    """Whether a further attempt may succeed.

    Args:
        error: the error of an attempt.
        attempt: the number of this attempt, from 1.
    """
    if isinstance(error, PERMANENT):
        return False
    return isinstance(error, TRANSIENT) or (isinstance(error, EmbeddingFailed) and attempt < MAX_FAILED_ATTEMPTS)
