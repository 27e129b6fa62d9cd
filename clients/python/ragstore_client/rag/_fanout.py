"""One search over several collections, in which a slow collection does not delay the others.

The collections of a service are searched in one joint call. If that call is still in flight after half of the time,
one of them must be slow, so each is searched alone as well: the slow one then costs only its own results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeAlias

from ragstore_client._exceptions import CallTimeout, ProblemError, RagstoreError, TransportError, describe
from ragstore_client._httpx import is_timeout
from ragstore_client._models import CollectionError, Match, MultiQueryResults
from ragstore_client._tasks import cancel

SearchCollections: TypeAlias = Callable[[list[str]], Coroutine[object, object, MultiQueryResults]]


async def search_jointly(
    collections: list[str], search: SearchCollections, timeout_seconds: float
) -> MultiQueryResults:
    """Search several collections within a time limit.

    Args:
        collections: names of the collections, each once.
        search: searches collections in one call.
        timeout_seconds: time limit of the whole search.

    Returns:
        The results of the collections that responded, and an error for each that did not.

    Raises:
        RagstoreError: the joint call failed, or the search of a single collection did.
    """
    joint = _start(search(collections))
    try:
        if len(collections) == 1:
            return await _with_timeout(joint, timeout_seconds)
        half = timeout_seconds / 2
        await asyncio.wait({joint}, timeout=half)
        return joint.result() if joint.done() else await _joint_or_each(joint, collections, search, half)
    finally:
        await cancel([joint])


async def search_each(
    collections: Iterable[str], search: SearchCollections, timeout_seconds: float
) -> MultiQueryResults:
    """Search collections one per call, concurrently.

    Args:
        collections: names of the collections, each once.
        search: searches the one collection that it is given.
        timeout_seconds: time limit of the whole search.

    Returns:
        The results of the collections that responded, and an error for each that did not.
    """
    tasks = {name: _start(search([name])) for name in collections}
    try:
        await asyncio.wait(tasks.values(), timeout=timeout_seconds)
        return _collect(tasks)
    finally:
        await cancel(tasks.values())


def collection_error(collection: str, error: BaseException) -> CollectionError:
    """Convert the error of a search into the error of a collection.

    Args:
        collection: name of the collection.
        error: the error of its search.

    Returns:
        The error, with the matching HTTP status and the code, if there is one.
    """
    if isinstance(error, ProblemError):
        return CollectionError(collection, error.status, error.detail, error.code)
    if is_timeout(error):
        return CollectionError(collection, 504, describe(error))
    return CollectionError(collection, 503 if isinstance(error, TransportError) else 502, describe(error))


def _start(search: Coroutine[object, object, MultiQueryResults]) -> asyncio.Task[MultiQueryResults]:
    # A task may still fail when its result is no longer awaited. asyncio would then log the exception, with a text
    # of a server in it.
    task = asyncio.create_task(search)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _joint_or_each(
    joint: asyncio.Task[MultiQueryResults], collections: list[str], search: SearchCollections, timeout_seconds: float
) -> MultiQueryResults:
    each = _start(search_each(collections, search, timeout_seconds))
    try:
        await asyncio.wait({joint, each}, return_when=asyncio.FIRST_COMPLETED)
        if joint.done() and joint.exception() is None:
            return joint.result()
        return await each
    finally:
        await cancel([each])


async def _with_timeout(task: asyncio.Task[MultiQueryResults], timeout_seconds: float) -> MultiQueryResults:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await task
    except TimeoutError as error:
        if isinstance(error, RagstoreError):
            raise
        raise CallTimeout(f"no response within {timeout_seconds:g} s") from None


def _collect(tasks: Mapping[str, asyncio.Task[MultiQueryResults]]) -> MultiQueryResults:
    results: list[Match] = []
    errors: list[CollectionError] = []
    for name, task in tasks.items():
        if not task.done():
            errors.append(CollectionError(name, 504, "no response in time"))
        elif (error := task.exception()) is not None:
            errors.append(collection_error(name, error))
        else:
            results += task.result().results
            errors += task.result().errors
    return MultiQueryResults(results, len(results), errors)
