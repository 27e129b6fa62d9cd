# Generated from _async/handle.py by scripts/generate_sync_client.py: do not edit.
"""A handle on one collection: the calls of `Client`, without the collection's name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar, cast

from ragstore_client._sync.base import CallSender
from ragstore_client._sync.collections import CollectionCalls
from ragstore_client._sync.documents import DocumentCalls
from ragstore_client._sync.ingest_calls import IngestCalls
from ragstore_client._sync.queries import QueryCalls

Calls = TypeVar("Calls", bound=CallSender)
P = ParamSpec("P")
R = TypeVar("R")


def _of_collection(
    method: Callable[Concatenate[Calls, str, P], R],
) -> Callable[Concatenate[CollectionHandle, P], R]:
    """A method of the handle that calls a method of the client with the collection's name."""

    @functools.wraps(method)
    def call(handle: CollectionHandle, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = cast("Callable[Concatenate[str, P], R]", getattr(handle._client, method.__name__))
        return bound(handle.name, *args, **kwargs)

    signature = inspect.signature(method)
    receiver, _, *rest = signature.parameters.values()
    call.__signature__ = signature.replace(parameters=[receiver, *rest])  # type: ignore[attr-defined]  # for help()
    return call


class CollectionHandle:
    """One collection of a client: `client.collection("handbook").query(vector)`. Made by `Client.collection`.

    Each method is the client's of the same name, or of that name with `collection` or `documents` in it.

    Args:
        client: the client, which the caller closes.
        name: name of the collection, which need not exist.
    """

    def __init__(self, client: CallSender, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        """The class and the name."""
        return f"{type(self).__name__}({self.name!r})"

    create = _of_collection(CollectionCalls.create_collection)
    exists = _of_collection(CollectionCalls.collection_exists)
    info = _of_collection(CollectionCalls.get_collection)
    update_metadata = _of_collection(CollectionCalls.update_collection_metadata)
    delete = _of_collection(CollectionCalls.delete_collection)
    start_rebuild = _of_collection(CollectionCalls.start_rebuild)
    get_rebuild = _of_collection(CollectionCalls.get_rebuild)
    metadata_values = _of_collection(CollectionCalls.metadata_values)
    add_documents = _of_collection(DocumentCalls.add_documents)
    upsert_documents = _of_collection(DocumentCalls.upsert_documents)
    update_documents = _of_collection(DocumentCalls.update_documents)
    ingest = _of_collection(IngestCalls.ingest)
    ingest_all = _of_collection(IngestCalls.ingest_all)
    ingest_frame = _of_collection(IngestCalls.ingest_frame)
    list_documents = _of_collection(DocumentCalls.list_documents)
    iter_documents = _of_collection(DocumentCalls.iter_documents)
    get_document = _of_collection(DocumentCalls.get_document)
    get_documents = _of_collection(DocumentCalls.get_documents)
    document_exists = _of_collection(DocumentCalls.document_exists)
    delete_documents = _of_collection(DocumentCalls.delete_documents)
    empty = _of_collection(DocumentCalls.empty_collection)
    count = _of_collection(DocumentCalls.count)
    query = _of_collection(QueryCalls.query)
    query_batch = _of_collection(QueryCalls.query_batch)
    map = _of_collection(QueryCalls.map_collection)
