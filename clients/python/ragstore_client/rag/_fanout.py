"""One search over several collections that none of them can hold up.

The collections of a service are asked in one call. If that call is not back at half time, one of them must be slow, so
each is asked alone as well: the slow one then costs its own results, not those of its neighbours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeAlias

from ragstore_client._exceptions import CallTimeout, ProblemError, RagstoreError, TransportError, describe
from ragstore_client._models import CollectionError, Match, MultiQueryResults

Ask: TypeAlias = Callable[[list[str]], Coroutine[object, object, MultiQueryResults]]


async def search_in_time(collections: list[str], ask: Ask, within: float) -> MultiQueryResults:
    """Ask several collections, within a time.

    Args:
        collections: where; each name once.
        ask: searches some of them in one call.
        within: seconds for all of it.

    Returns:
        What those gave that answered, and an error for each that did not.

    Raises:
        RagstoreError: the joint call failed, or a single collection did.
    """
    joint = _started(ask(collections))
    try:
        if len(collections) == 1:
            return await _within(joint, within)
        await asyncio.wait({joint}, timeout=within / 2)
        return joint.result() if joint.done() else await _joint_or_alone(joint, collections, ask, within / 2)
    finally:
        joint.cancel()


async def search_each(collections: Iterable[str], ask: Ask, within: float) -> MultiQueryResults:
    """Ask each collection alone, all at once.

    Args:
        collections: where; each name once.
        ask: searches the one that it is given.
        within: seconds for all of it.

    Returns:
        What those gave that answered, and an error for each that did not.
    """
    tasks = {name: _started(ask([name])) for name in collections}
    try:
        await asyncio.wait(tasks.values(), timeout=within)
        return _collected(tasks)
    finally:
        for task in tasks.values():
            task.cancel()


def failure(collection: str, error: BaseException) -> CollectionError:
    """Say of one collection what an exception says of a call.

    Args:
        collection: which.
        error: what its search ended in.

    Returns:
        The error, with the HTTP status that fits.
    """
    if isinstance(error, ProblemError):
        return CollectionError(collection, error.status, error.detail, error.code)
    if isinstance(error, TimeoutError):
        return CollectionError(collection, 504, describe(error))
    return CollectionError(collection, 503 if isinstance(error, TransportError) else 502, describe(error))


def _started(work: Coroutine[object, object, MultiQueryResults]) -> asyncio.Task[MultiQueryResults]:
    # A task that is given up may still fail. asyncio would then log the exception, and a server's words in it.
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _joint_or_alone(
    joint: asyncio.Task[MultiQueryResults], collections: list[str], ask: Ask, within: float
) -> MultiQueryResults:
    alone = _started(search_each(collections, ask, within))
    try:
        await asyncio.wait({joint, alone}, return_when=asyncio.FIRST_COMPLETED)
        if joint.done() and joint.exception() is None:
            return joint.result()
        return await alone
    finally:
        alone.cancel()


async def _within(task: asyncio.Task[MultiQueryResults], within: float) -> MultiQueryResults:
    try:
        async with asyncio.timeout(within):
            return await task
    except TimeoutError as error:
        if isinstance(error, RagstoreError):
            raise
        raise CallTimeout(f"no answer within {within:g} s") from None


def _collected(tasks: Mapping[str, asyncio.Task[MultiQueryResults]]) -> MultiQueryResults:
    results: list[Match] = []
    errors: list[CollectionError] = []
    for name, task in tasks.items():
        if not task.done():
            errors.append(CollectionError(name, 504, "no answer in time"))
        elif (error := task.exception()) is not None:
            errors.append(failure(name, error))
        else:
            results += task.result().results
            errors += task.result().errors
    return MultiQueryResults(results, len(results), errors)
