"""Searches all scopes of a question concurrently, within one deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from ragstore_client._exceptions import describe
from ragstore_client._httpx import is_timeout
from ragstore_client._tasks import cancel
from ragstore_client.context._passages import Passage, checked
from ragstore_client.context._scopes import Scope, ScopedSearch, searches
from ragstore_client.context._sources import FailureReason, PartialSearch, PassageSource, ScopedSource
from ragstore_client.rag._connections import LoopThread

logger = logging.getLogger("ragstore_client.context")


class StepFailure(msgspec.Struct, frozen=True):
    """A part of a retrieval that yielded nothing.

    Attributes:
        step: the title of a scope, or `rerank`, `order`, `select`.
        reason: `timeout` or `failed`.
        error: the class of the exception, with its HTTP status where there is one; `TypeError` where a source returned
            something that is not a well-formed passage; empty for a timeout of the builder.
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
    scopes: Sequence[Scope] = (Scope(),),
    *,
    session_id: str | None = None,
    global_session_id: str = "GLOBAL",
    top_k: int = 40,
    with_embeddings: bool = False,
    timeout_seconds: float = 6.0,
    headers: Mapping[str, str] | None = None,
) -> Retrieval:
    """Search scopes concurrently, within one time limit. No exception of a source is raised.

    Args:
        source: the source; a `ScopedSource` if a scope names collections. `headers` need one, too.
        query: the text to search for.
        scopes: the passages that may be used; all of the source's by default.
        session_id: the session, for scopes that need one.
        global_session_id: the session id of documents of all sessions.
        top_k: maximum number of passages of a scope without its own.
        with_embeddings: whether the passages' vectors are needed, as for MMR.
        timeout_seconds: time limit. Searches that are still in flight then are cancelled.
        headers: sent with every request of a source that has any.

    Returns:
        The passages of the searches that succeeded in time, and the others' failures.
    """
    return await search_all(
        source,
        query,
        searches(scopes, session_id, global_session_id),
        top_k=top_k,
        with_embeddings=with_embeddings,
        deadline=asyncio.get_running_loop().time() + timeout_seconds,
        headers=headers,
    )


def retrieve_sync(
    source: PassageSource,
    query: str,
    scopes: Sequence[Scope] = (Scope(),),
    *,
    session_id: str | None = None,
    global_session_id: str = "GLOBAL",
    top_k: int = 40,
    with_embeddings: bool = False,
    timeout_seconds: float = 6.0,
    headers: Mapping[str, str] | None = None,
    loop_thread: LoopThread | None = None,
) -> Retrieval:
    """Search scopes concurrently, for synchronous callers. See `retrieve`.

    Args:
        source: as for `retrieve`.
        query: as for `retrieve`.
        scopes: as for `retrieve`.
        session_id: as for `retrieve`.
        global_session_id: as for `retrieve`.
        top_k: as for `retrieve`.
        with_embeddings: as for `retrieve`.
        timeout_seconds: as for `retrieve`.
        headers: as for `retrieve`.
        loop_thread: runs the event loop; a new thread for this call when None. An asynchronous client that is the
            source, or part of it, belongs to one thread.

    Returns:
        As `retrieve`.
    """
    return (loop_thread or LoopThread()).run(
        retrieve(
            source,
            query,
            scopes,
            session_id=session_id,
            global_session_id=global_session_id,
            top_k=top_k,
            with_embeddings=with_embeddings,
            timeout_seconds=timeout_seconds,
            headers=headers,
        )
    )


async def search_all(
    source: PassageSource,
    query: str,
    searches: Sequence[ScopedSearch],
    *,
    top_k: int,
    with_embeddings: bool,
    deadline: float,
    headers: Mapping[str, str] | None = None,
) -> Retrieval:
    """Make searches concurrently.

    Args:
        source: the source; a `ScopedSource` if a search names collections. `headers` need one, too.
        query: the text to search for.
        top_k: maximum number of passages of a search without its own.
        with_embeddings: whether the passages' vectors are needed.
        deadline: time on the event loop's clock. Searches that are still in flight then are cancelled.
        headers: sent with every request of a source that has any.

    Returns:
        The passages of the searches that succeeded in time, and the others' failures. Every exception of a source
        is a failure. So is a malformed passage, which does not affect the others.
    """

    async def search(one: ScopedSearch) -> list[Passage]:
        scoped = source
        if isinstance(source, ScopedSource) and (one.collections or headers):
            scoped = source.scoped(collections=one.collections or None, headers=headers)
        found = await scoped.search(
            query, one.top_k or top_k, where=one.where, with_embeddings=with_embeddings, deadline=deadline
        )
        return list(found)

    tasks = {asyncio.create_task(search(one)): one for one in searches}
    try:
        await asyncio.wait(tasks, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        in_time = {task for task in tasks if task.done()}
    finally:
        await cancel(tasks)
    retrieval = Retrieval([], [])
    for task, one in tasks.items():
        given = _passages(task) if task in in_time else []
        passages = [passage for passage in map(checked, given) if passage is not None]
        failure = _failure(task, one.title) if task in in_time else StepFailure(one.title, "timeout")
        if failure is None and len(passages) < len(given):
            failure = StepFailure(one.title, "failed", "TypeError")
        if failure is not None:
            logger.warning("Searching %s: %s %s", failure.step, failure.reason, failure.error)
            retrieval.failures.append(failure)
        retrieval.passages.extend(passages)
    return retrieval


def to_failure(step: str, error: BaseException) -> StepFailure:
    """The failure that an exception means."""
    if isinstance(error, PartialSearch):
        return StepFailure(step, error.reason, ", ".join(error.errors))
    return StepFailure(step, "timeout" if is_timeout(error) else "failed", describe(error))


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
