"""`StoreLayer`: the base of stores that wrap another store. It passes every call on.

Every call goes through `_intercept`. A layer that concerns all calls (a deadline, the scope of a key) overrides that
one method, and so misses none, including methods that are added later.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, cast

from ragstore.store.protocol import Store

P = ParamSpec("P")
T = TypeVar("T")

StoreOperation: TypeAlias = Literal[
    "status",
    "max_batch_size",
    "create_collection",
    "get_collection",
    "list_collections",
    "count_collections",
    "count_each",
    "update_metadata",
    "delete_collection",
    "start_rebuild",
    "get_rebuild",
    "write",
    "update_documents",
    "get",
    "get_ids",
    "get_embeddings",
    "get_metadata_values",
    "count",
    "delete",
    "query",
    "query_exact",
    "map_collection",
]
"""A method of `Store` that calls Chroma."""


def _intercepted(
    method: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[StoreLayer, P], Coroutine[Any, Any, T]]:
    """A method of a layer that calls the wrapped store's through `_intercept`."""
    operation = cast("StoreOperation", method.__name__)
    has_name = "name" in inspect.signature(method).parameters

    @functools.wraps(method)
    async def call(layer: StoreLayer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        inner = cast("Callable[P, Coroutine[Any, Any, T]]", getattr(layer._inner, operation))
        name = cast(str, args[0] if args else kwargs["name"]) if has_name else None
        return await layer._intercept(operation, name, lambda: inner(*args, **kwargs))

    return call


class StoreLayer:
    """Passes every call on through `_intercept`; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def inner(self) -> Store:
        """The store that is wrapped."""
        return self._inner

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; a layer adds here what it does for all calls.

        Args:
            operation: the method.
            name: the collection's name; None for a method without one.
            call: makes the call to the wrapped store.

        Returns:
            The result of the call.
        """
        return await call()

    async def start(self) -> None:
        """Start, without waiting for Chroma."""
        await self._inner.start()

    async def close(self) -> None:
        """Close the connection to Chroma."""
        await self._inner.close()

    status = _intercepted(Store.status)
    max_batch_size = _intercepted(Store.max_batch_size)
    create_collection = _intercepted(Store.create_collection)
    get_collection = _intercepted(Store.get_collection)
    list_collections = _intercepted(Store.list_collections)
    count_collections = _intercepted(Store.count_collections)
    count_each = _intercepted(Store.count_each)
    update_metadata = _intercepted(Store.update_metadata)
    delete_collection = _intercepted(Store.delete_collection)
    start_rebuild = _intercepted(Store.start_rebuild)
    get_rebuild = _intercepted(Store.get_rebuild)
    write = _intercepted(Store.write)
    update_documents = _intercepted(Store.update_documents)
    get = _intercepted(Store.get)
    get_ids = _intercepted(Store.get_ids)
    get_embeddings = _intercepted(Store.get_embeddings)
    get_metadata_values = _intercepted(Store.get_metadata_values)
    count = _intercepted(Store.count)
    delete = _intercepted(Store.delete)
    query = _intercepted(Store.query)
    query_exact = _intercepted(Store.query_exact)
    map_collection = _intercepted(Store.map_collection)
