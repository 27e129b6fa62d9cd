"""Upserts: Chroma's own upsert merges metadata, so what a document had before must be known.

Embedded Chroma executes one call at a time, and each waits for the calls before it: there, a small upsert of documents
that are all new is one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragstore.chroma.backend import Backend
from ragstore.chroma.merging import ids_of, merge
from ragstore.chroma.operations import GetRecords, UpsertRecords
from ragstore.chroma.records import Records
from ragstore.chroma.steps import replacement_steps
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection
from ragstore.model.documents import Write

MAX_ONLY_NEW: Final = 64
"""Maximum number of documents of an upsert that is sent before it is known whether they exist. If one exists, it is
sent again."""


async def upsert(backend: Backend, collection: Collection, writes: Sequence[Write]) -> list[ServiceError | None]:
    """Execute upserts as one.

    Args:
        backend: Chroma.
        collection: the collection, whose lock is held.
        writes: the upserts, in their order.

    Returns:
        An outcome for each.
    """
    ids, is_alone = ids_of(writes), len(writes) == 1
    present: Records | None
    # A backend whose adds are not conditional is embedded Chroma.
    if len(ids) <= MAX_ONLY_NEW and not backend.has_conditional_add:
        merged = merge(collection.name, writes, {})
        new = UpsertRecords(collection.id, merged.records, may_split=is_alone, only_new=True)
        if (present := await backend.call(new)) is None:
            return merged.outcomes
    else:
        present = await backend.call(GetRecords(collection.id, ids, columns=("metadatas",), in_order=False))
    before = dict(zip(present.ids, present.metadatas or [], strict=True))
    merged = merge(collection.name, writes, before)
    if merged.records.ids:
        for records in replacement_steps(merged.records, len(before), backend):
            await backend.call(UpsertRecords(collection.id, records, may_split=is_alone))
    return merged.outcomes
