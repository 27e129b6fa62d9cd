"""The sources that a context builder searches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from ragstore_client._exceptions import RagstoreError
from ragstore_client._models import Where
from ragstore_client.context._passages import Passage

FailureReason: TypeAlias = Literal["timeout", "failed"]

_MIN_SECONDS = 0.001
_MARGIN, _MAX_MARGIN_SECONDS = 0.05, 0.1


class PartialSearch(RagstoreError):
    """Some of several collections failed, or were too slow. A source raises it to return the passages of the others.

    Args:
        passages: the passages of the other collections.
        reason: `timeout` if at least one was too slow, else `failed`.
        errors: the kinds of errors, without texts of a server.
    """

    def __init__(self, passages: Sequence[Passage], reason: FailureReason, errors: Sequence[str]) -> None:
        super().__init__(f"some collections could not be searched: {', '.join(errors)}")
        self.passages = list(passages)
        self.reason: FailureReason = reason
        self.errors = list(errors)


@runtime_checkable
class PassageSource(Protocol):
    """Anything that can be searched: collections of a service, archives, a knowledge base."""

    async def search(
        self, query: str, top_k: int, *, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        """Find the passages nearest to a text.

        It may raise anything: the builder reports it, and continues without these passages. It is cancelled at the
        deadline.

        Args:
            query: the text.
            top_k: maximum number of passages.
            where: a filter on metadata, in the contract's language.
            with_embeddings: whether the passages' vectors are needed.
            deadline: time on the event loop's clock (`loop.time()`) after which the passages are of no use; None for no
                limit.

        Returns:
            The passages.
        """
        ...


@runtime_checkable
class ScopedSource(PassageSource, Protocol):
    """A source with several collections, or with HTTP requests that can carry headers."""

    def scoped(
        self, *, collections: Sequence[str] | None = None, headers: Mapping[str, str] | None = None
    ) -> PassageSource:
        """The same source for one search.

        Args:
            collections: names of the collections to search; the source's own when None.
            headers: sent with every request, such as `x-request-id` and `traceparent`.

        Returns:
            A source. It shares the connections of this one.
        """
        ...


def seconds_before(deadline: float) -> float:
    """Seconds in which a search has to end by itself, so that it is not cancelled with the results that it has."""
    remaining = deadline - asyncio.get_running_loop().time()
    return max(remaining - min(_MARGIN * remaining, _MAX_MARGIN_SECONDS), _MIN_SECONDS)
