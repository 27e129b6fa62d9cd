"""`RetryingBackend`: asks Chroma again when it was away for a moment.

Only calls that are the same when made twice are repeated, which all are but creating and deleting a collection. A call
that took too long is not repeated: its caller has waited enough, and Chroma has enough to do.

Chroma's server reads in two steps: a get with embeddings fails with an internal error when a document that it found is
deleted before its embedding is read (measured with 1.5.9), and a query gives such a document without text and metadata,
which the backend takes for a failure. Such reads are repeated, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from prometheus_client import Counter
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.intercepting import Asked, InterceptingBackend
from ragstore.errors import ChromaFailed, ChromaUnavailable

T = TypeVar("T")

RETRIES: Final = 4
"""Most times that a call is repeated, at once first. Chroma is back within a moment, or callers had better be told."""

LONGEST_WAIT: Final = 0.5
"""Longest pause between two attempts, in seconds."""

REPEATED: Final = Counter("ragstore_chroma_retries_total", "Calls to Chroma that were made again because it was away.")


class RetryingBackend(InterceptingBackend):
    """A backend that repeats what may be repeated; see `Backend` for what each method does.

    Args:
        inner: the backend that is wrapped.
        seconds: no attempt begins later than this after the first.
    """

    def __init__(self, inner: Backend, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
    ) -> T:
        """Make a call, and again while Chroma is away."""
        try:
            return await call()
        except (ChromaUnavailable, ChromaFailed) as error:
            passing = (ChromaUnavailable, ChromaFailed) if two_step_read else ChromaUnavailable
            if not repeatable or not isinstance(error, passing):
                raise

        async def again() -> T:
            REPEATED.inc()
            return await call()

        # The usual call ends above, and pays nothing for what follows.
        retrying = AsyncRetrying(
            sleep=asyncio.sleep,
            retry=retry_if_exception_type(passing),
            stop=stop_after_attempt(RETRIES) | stop_before_delay(self._seconds),
            wait=wait_random_exponential(multiplier=0.1, max=LONGEST_WAIT),
            reraise=True,
        )
        return await retrying(again)
