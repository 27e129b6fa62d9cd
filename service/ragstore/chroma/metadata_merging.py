"""Merges several updates of metadata into one call to Chroma that has the effect of all, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstore.chroma.backend import Backend
from ragstore.chroma.merging import MAX_REMOVED_KEYS
from ragstore.chroma.operations import GetRecords, UpdateMetadatas
from ragstore.chroma.records import UpsertMetadata
from ragstore.errors import BatchTooLarge, DocumentsNotFound, InvalidMetadata
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection
from ragstore.model.metadata import Metadata, count_values, value_count_error
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.received_documents import Fault, rejection


async def update_metadatas(
    backend: Backend, collection: Collection, updates: Sequence[MetadataUpdates], limit: int
) -> list[ServiceError | None]:
    """Execute updates of metadata as one, or one by one where they are too large together.

    Args:
        backend: Chroma.
        collection: the collection, whose lock is held.
        updates: the updates, in their order.
        limit: maximum number of documents in one update.

    Returns:
        An outcome for each.
    """
    ids = list(dict.fromkeys(document_id for update in updates for document_id in update.ids))
    if len(updates) > 1 and len(ids) > limit:
        return [each for one in updates for each in await update_metadatas(backend, collection, [one], limit)]
    present = await backend.call(GetRecords(collection.id, ids[:limit], columns=("metadatas",)))
    before = dict(zip(present.ids, present.metadatas or [], strict=True))
    merged = merge_updates(collection.name, updates, before, limit)
    if merged.ids:
        await backend.call(UpdateMetadatas(collection.id, merged.ids, merged.metadatas))
    return merged.outcomes


@dataclass(frozen=True, slots=True)
class MergedUpdates:
    """One update with the effect of several.

    Attributes:
        ids: n ids of records to change.
        metadatas: n metadatas for Chroma's update, which merges: null removes a key.
        outcomes: the outcome of each of the several: an error, or None when it is included.
    """

    ids: list[str]
    metadatas: list[UpsertMetadata]
    outcomes: list[ServiceError | None]


def merge_updates(
    collection: str, updates: Sequence[MetadataUpdates], before: Mapping[str, Metadata], limit: int
) -> MergedUpdates:
    """Merge updates. One that names a document that does not exist is left out, and changes nothing.

    Args:
        collection: the collection's name, for errors.
        updates: the updates, in their order.
        before: metadata of the documents that exist, by id, of all ids that the updates name.
        limit: maximum number of documents in one update.
    """
    after: dict[str, Metadata] = {}
    outcomes: list[ServiceError | None] = []
    for update in updates:
        error = _error_in(collection, update, {**before, **after}, limit)
        outcomes.append(error)
        if error is None:
            for row, document_id in enumerate(update.ids):
                after[document_id] = update.updated(row, after.get(document_id, before[document_id]))
    changed = {document_id: _changes(before[document_id], metadata) for document_id, metadata in after.items()}
    # A document that has its metadata already needs no write.
    written = {document_id: changes for document_id, changes in changed.items() if changes}
    return MergedUpdates(list(written), list(written.values()), outcomes)


def _error_in(
    collection: str, update: MetadataUpdates, stored: Mapping[str, Metadata], limit: int
) -> ServiceError | None:
    if len(update) > limit:
        return BatchTooLarge(limit, len(update))
    missing = [row for row, document_id in enumerate(update.ids) if document_id not in stored]
    if missing:
        return DocumentsNotFound(collection, [update.ids[row] for row in missing], missing)
    faults = []
    for row, document_id in enumerate(update.ids):
        metadata = update.updated(row, stored[document_id])
        message = value_count_error(count_values(metadata))
        if sum(key not in metadata for key in stored[document_id]) > MAX_REMOVED_KEYS:
            message = f"The stored document has more than {MAX_REMOVED_KEYS} metadata keys; delete it first"
        if message:
            faults.append(Fault(f"$.documents[{row}].metadata", message, InvalidMetadata))
    return rejection(faults) if faults else None


def _changes(before: Metadata, after: Metadata) -> UpsertMetadata:
    """The keys that Chroma has to set and to remove."""
    removed = dict.fromkeys(key for key in before if key not in after)
    # 1 equals True and 1.0 in Python, but not in the contract.
    same = {key for key, value in after.items() if key in before and _is_same(before[key], value)}
    return {**removed, **{key: value for key, value in after.items() if key not in same}}


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and one == other
