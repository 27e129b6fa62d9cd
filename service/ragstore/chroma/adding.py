"""Adds: Chroma's own add ignores an id that exists, and reports success.

Ids are looked up before the write, or, where that is sufficient, their write tokens are read back after it. Both
concern only the ids that came from callers: an id that is a random UUID of the service exists nowhere else, so such a
document costs one call to Chroma.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstore.chroma.backend import Backend
from ragstore.chroma.merging import ids_of, merge
from ragstore.chroma.operations import AddRecords, GetWriteTokens, UndoAdd
from ragstore.errors import DocumentsExist
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection
from ragstore.model.documents import Write
from ragstore.model.metadata import Metadata


async def add(backend: Backend, collection: Collection, writes: Sequence[Write]) -> list[ServiceError | None]:
    """Execute adds as one. An add that loses one of its ids to another replica is undone.

    Args:
        backend: Chroma.
        collection: the collection, whose lock is held.
        writes: the adds, in their order.

    Returns:
        An outcome for each.
    """
    merged = merge(collection.name, writes, await _existing(backend, collection, writes))
    outcomes = list(merged.outcomes)
    accepted = [write for write, error in zip(writes, outcomes, strict=True) if error is None]
    if not accepted:
        return outcomes
    token_of = {key: write.write_token for write in accepted for key in write.batch.ids}
    tokens = [token_of[key] for key in merged.records.ids]
    await backend.call(AddRecords(collection.id, merged.records, tokens, may_split=len(writes) == 1))
    lost = await _lost(backend, collection, accepted, token_of)
    if not lost:
        return outcomes
    for index, write in enumerate(writes):
        ids = write.batch.ids
        taken = [] if outcomes[index] else [row for row, key in enumerate(ids) if key in lost]
        if taken:
            outcomes[index] = DocumentsExist(collection.name, [ids[row] for row in taken], taken)
            if won := [key for key in ids if key not in lost]:
                await backend.call(UndoAdd(collection.id, won, write.write_token))
    return outcomes


def _ids_of_callers(writes: Sequence[Write]) -> list[str]:
    unique_ids = frozenset[str]().union(*(write.batch.unique_ids for write in writes))
    return [key for key in ids_of(writes) if key not in unique_ids]


async def _existing(backend: Backend, collection: Collection, writes: Sequence[Write]) -> dict[str, Metadata]:
    """Get the ids of some adds that exist, as far as that must be known before they are written.

    An add of one document needs no lookup where Chroma ignores an id that exists: it is written or it is not, and its
    write token shows which. One of several documents must not be written in part, not even for a moment.
    """
    looked_up = [write for write in writes if len(write.batch) > 1 or not backend.has_conditional_add]
    ids = _ids_of_callers(looked_up)
    if not ids:
        return {}
    present = await backend.call(GetWriteTokens(collection.id, ids))
    # A record with a token of these writes is from an earlier attempt whose response was lost.
    own = {write.write_token for write in writes}
    return {key: {} for key, token in present.items() if token not in own}


async def _lost(
    backend: Backend, collection: Collection, writes: Sequence[Write], token_of: dict[str, str]
) -> set[str]:
    """Get the ids of some adds that Chroma ignored, since another add was first."""
    ids = _ids_of_callers(writes) if backend.has_conditional_add else []
    if not ids:
        return set()
    stored = await backend.call(GetWriteTokens(collection.id, ids))
    return {key for key in ids if stored.get(key) != token_of[key]}
