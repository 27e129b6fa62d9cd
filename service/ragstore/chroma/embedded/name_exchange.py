"""Exchanges the name of a collection and its copy in embedded Chroma, in Chroma's process.

Chroma renames one collection a call, and two collections of a database cannot have one name. This process executes one
operation at a time, so no reader sees the moment between the two renames. If the process ends in that moment, the next
one gives the old collection its name back before it serves a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ragstore.chroma.collection_config import EMPTY_METADATA
from ragstore.chroma.embedded.api import ChromaApi, Scope
from ragstore.chroma.operations import ExchangeNames
from ragstore.chroma.rebuild_names import NAME_KEY, REPLACED_PREFIX, copy_name, replaced_name
from ragstore.model.collections import Collection


def exchange_names(api: ChromaApi, scope: Scope, operation: ExchangeNames) -> None:
    """Give a copy the name and the metadata of its original. If that fails, the original keeps both.

    Chroma changes name and metadata of a collection in one transaction (1.5.9).
    """
    original = UUID(operation.collection_id)
    api._modify(original, new_name=replaced_name(operation.collection_id), **scope)
    metadata = dict(operation.metadata or EMPTY_METADATA)
    try:
        api._modify(UUID(operation.copy_id), new_name=operation.new_name, new_metadata=metadata, **scope)
    except BaseException:  # Chroma's Rust code panics on some input, and the panic is a BaseException
        api._modify(original, new_name=operation.new_name, **scope)
        raise


def restore_names(api: ChromaApi, scope: Scope, collections: Sequence[Collection]) -> None:
    """Undo an exchange that ended after its first step.

    Args:
        api: Chroma.
        scope: the database.
        collections: the collections of the database, hidden ones included.
    """
    by_name = {collection.name: collection for collection in collections}
    for collection in collections:
        copy = by_name.get(copy_name(collection.id))
        name = None if copy is None else copy.metadata.get(NAME_KEY)
        if collection.name.startswith(REPLACED_PREFIX) and isinstance(name, str) and name not in by_name:
            api._modify(UUID(collection.id), new_name=name, **scope)
