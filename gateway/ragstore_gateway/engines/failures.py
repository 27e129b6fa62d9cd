"""Failures of engines, as errors of the gateway. Engine messages are dropped, because they may echo the request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec import ValidationError

from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import CollectionMissing, DimensionMismatch, StoreRejected, StoreUnavailable

_TEMPORARY: Final = frozenset({408, 409, 423, 425, 429})
"""Statuses below 500 of calls that may succeed later: too many, or in conflict with others."""


class StoreErrors:
    """Makes the errors of a store type.

    Args:
        timeout_seconds: time limit of one call.
        kinds: the exceptions of its driver.
        convert: the error of an exception; None for an unknown one.
    """

    def __init__(
        self,
        store_type: str,
        timeout_seconds: float,
        kinds: tuple[type[Exception], ...],
        convert: Callable[[Exception], ServiceError | None],
    ) -> None:
        self.store_type = store_type
        self._timeout_seconds = timeout_seconds
        self._kinds = kinds
        self._convert = convert

    @asynccontextmanager
    async def converted(self) -> AsyncIterator[None]:
        """Limit the time of the block, and convert its exceptions.

        Raises:
            ServiceError: the block failed.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                yield
        except TimeoutError as error:
            raise self.unavailable("does not respond in time", error) from None
        except self._kinds as error:
            raise self._convert(error) or self.unavailable("does not respond", error) from None
        except (ValidationError, LookupError) as error:
            # Another program has written to the collection, or has created it.
            raise self.unavailable("has data that the gateway did not write", error) from None

    def unavailable(self, problem: str, error: BaseException) -> StoreUnavailable:
        """The error of an engine that does not respond, or responds with an error.

        Args:
            problem: the rest of a sentence, after the name of the store. Never a text of the engine.
            error: the exception. Its class is the cause for the operator.
        """
        return StoreUnavailable(f"The engine ({self.store_type}) {problem}").because(type(error).__name__)

    def rejected(self, problem: str, error: BaseException) -> StoreRejected:
        """The error of an engine that would reject the same call again; see `unavailable`.

        Args:
            problem: the rest of a sentence, after the name of the store. Never a text of the engine.
            error: the exception.
        """
        return StoreRejected(f"The engine ({self.store_type}) {problem}").because(type(error).__name__)

    def of_status(self, problem: str, status: int, error: BaseException) -> StoreUnavailable:
        """The error of an engine that responds with a status of HTTP.

        Args:
            problem: the rest of a sentence, without the status.
            error: the exception.
        """
        is_rejection = 400 <= status < 500 and status not in _TEMPORARY
        return (self.rejected if is_rejection else self.unavailable)(f"{problem} with status {status}", error)

    def missing(self) -> CollectionMissing:
        """The error of a write to a collection that does not exist."""
        return CollectionMissing(f"The collection does not exist in the engine ({self.store_type})")


def dimension_mismatch(found: int, wanted: int) -> DimensionMismatch:
    """The error of a collection that exists with another dimension.

    Args:
        found: the collection's dimension.
        wanted: the embedding model's.
    """
    return DimensionMismatch(f"The collection has the dimension {found}, and the embedding model {wanted}")


def check_dimension(store_type: str, dimension: int, max_dimension: int) -> None:
    """Check that an engine can store vectors of a dimension.

    Args:
        dimension: the embedding model's dimension.
        max_dimension: the maximum of the engine.

    Raises:
        DimensionMismatch: it cannot.
    """
    if dimension > max_dimension:
        raise DimensionMismatch(
            f"The engine ({store_type}) has at most {max_dimension} dimensions, and the embedding model {dimension}"
        )


@asynccontextmanager
async def empty_if_missing() -> AsyncIterator[None]:
    """Ignore that a collection does not exist."""
    try:
        yield
    except CollectionMissing:
        return
