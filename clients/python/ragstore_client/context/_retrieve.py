"""Searches all scopes of a question concurrently, within one deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from ragstore_client._exceptions import GatewayTimeout, describe
from ragstore_client._tasks import cancel
from ragstore_client.context._passages import Passage
from ragstore_client.context._scopes import ScopedSearch
from ragstore_client.context._sources import FailureReason, PartialSearch, PassageSource, ScopedSource

logger = logging.getLogger("ragstore_client.context")


class StepFailure(msgspec.Struct, frozen=True):
    """A part of a retrieval that yielded nothing.

    Attributes:
        step: the title of a scope, or `rerank`, `order`, `select`.
        reason: `timeout` or `failed`.
        error: the class of the exception, with its HTTP status where there is one; empty for a timeout of the builder.
    """

    step: str
    reason: FailureReason
    error: str = ""


class Retrieval(msgspec.Struct, frozen=True):
    """The results that arrived before the deadline.

    Attributes:
        passages: the passages of all scopes.
        failures: the scopes that failed, or were too slow.
    """

    passages: list[Passage]
    failures: list[StepFailure]


async def retrieve(
    source: PassageSource,
    query: str,
    searches: Sequence[ScopedSearch],
    *,
    top_k: int,
    with_embeddings: bool,
    deadline: float,
    headers: Mapping[str, str] | None = None,
) -> Retrieval:
    """Search scopes concurrently.

    Args:
        source: the source; a `ScopedSource` if a search names collections. `headers` need one, too.
        query: the text to search for.
        searches: the searches.
        top_k: maximum number of passages of a search without its own.
        with_embeddings: whether the passages' vectors are needed.
        deadline: time on the event loop's clock. Searches that are still in flight then are cancelled.
        headers: sent with every request of a source that has any.

    Returns:
        The passages of the searches that succeeded in time, and the others' failures. Every exception of a source
        is a failure.
    """

    async def search(one: ScopedSearch) -> list[Passage]:
        scoped = source
        if isinstance(source, ScopedSource) and (one.collections or headers):
            scoped = source.scoped(collections=one.collections or None, headers=headers)
        found = await scoped.search(
            query, one.top_k or top_k, where=one.where, with_embeddings=with_embeddings, deadline=deadline
        )
        if not all(isinstance(passage, Passage) for passage in found):
            raise TypeError("a source must return passages")
        return list(found)

    tasks = {asyncio.create_task(search(one)): one for one in searches}
    try:
        await asyncio.wait(tasks, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        in_time = {task for task in tasks if task.done()}
    finally:
        await cancel(tasks)
    retrieval = Retrieval([], [])
    for task, one in tasks.items():
        failure = _failure(task, one.title) if task in in_time else StepFailure(one.title, "timeout")
        if failure is not None:
            logger.warning("Searching %s: %s %s", failure.step, failure.reason, failure.error)
            retrieval.failures.append(failure)
        if task in in_time:
            retrieval.passages.extend(_passages(task))
    return retrieval


def to_failure(step: str, error: BaseException) -> StepFailure:
    """The failure that an exception means."""
    if isinstance(error, PartialSearch):
        return StepFailure(step, error.reason, ", ".join(error.errors))
    reason: FailureReason = "timeout" if isinstance(error, TimeoutError | GatewayTimeout) else "failed"
    return StepFailure(step, reason, describe(error))


def _failure(task: asyncio.Task[list[Passage]], step: str) -> StepFailure | None:
    if task.cancelled():  # by the source itself
        return StepFailure(step, "failed", "CancelledError")
    error = task.exception()
    return None if error is None else to_failure(step, error)


def _passages(task: asyncio.Task[list[Passage]]) -> list[Passage]:
    if task.cancelled():
        return []
    error = task.exception()
    if error is None:
        return task.result()
    return list(error.passages) if isinstance(error, PartialSearch) else []
