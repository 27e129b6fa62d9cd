"""Retries of calls to Chroma. No other layer on this side of a call repeats one.

An operation that has the same effect when repeated is retried while Chroma is unavailable: all are but the creation
of a collection. A deletion is retried only when the connection was lost before the response; "not found" then means
that the first attempt deleted the collection. A call that timed out is not retried: its caller has waited long
enough, and Chroma has enough to do. A probe is repeated once, and only when the connection was lost: Chroma may have
closed one that was idle.

Chroma's server reads in two steps: a get with embeddings fails with an internal error when a document that it found
is deleted before its embedding is read (measured with 1.5.9), and a query returns such a document without text and
metadata, which the backend reports as a failure. Such reads are retried, too, unless they name the document.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Final, TypeVar, cast

from prometheus_client import Counter
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from ragstore.chroma.errors import ConnectionLost, RecordGone
from ragstore.chroma.layers.layered_backend import BackendLayer, NextCall
from ragstore.chroma.operations import Operation, QueryRecords
from ragstore.errors import ChromaFailed, ChromaUnavailable, CollectionNotFound

T = TypeVar("T")

MAX_RETRIES: Final = 4
"""The first is immediate. Chroma is back within a moment, or callers had better know."""

MAX_WAIT_SECONDS: Final = 0.5
"""Maximum pause between two attempts."""

RETRIED: Final = Counter("ragstore_chroma_retries_total", "Calls to Chroma that were made again because it was away.")


class RetryLayer(BackendLayer):
    """Retries what may be repeated.

    Args:
        seconds: no retry begins later than this after the first failure.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def concerns(self, kind: type[Operation[object]]) -> bool:
        """Concerns everything that may be repeated."""
        return kind.retryable

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute an operation, and again while Chroma is unavailable."""
        try:
            return await next_call(operation)
        except (ChromaUnavailable, ChromaFailed) as error:
            if not _is_transient(operation, error):
                raise
        # The usual call ends above, and pays nothing for what follows.

        async def again() -> T:
            RETRIED.inc()
            try:
                return await next_call(operation)
            except CollectionNotFound:
                if not operation.done_if_gone:
                    raise
                return cast("T", None)

        retrying = AsyncRetrying(
            sleep=asyncio.sleep,
            retry=retry_if_exception(functools.partial(_is_transient, operation)),
            stop=stop_after_attempt(1 if operation.is_probe else MAX_RETRIES) | stop_before_delay(self._seconds),
            wait=wait_random_exponential(multiplier=0.1, max=MAX_WAIT_SECONDS),
            reraise=True,
        )
        return await retrying(again)


def _is_transient(operation: Operation[object], error: BaseException) -> bool:
    """Whether an operation that failed so may succeed when it is repeated."""
    if operation.done_if_gone or operation.is_probe:
        return isinstance(error, ConnectionLost)
    if isinstance(error, RecordGone) and isinstance(operation, QueryRecords) and operation.matching_ids is not None:
        return False
    if operation.is_two_step_read:
        return isinstance(error, (ChromaUnavailable, ChromaFailed))
    return isinstance(error, ChromaUnavailable)
