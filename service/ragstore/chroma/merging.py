"""Merges several writes into one that has the effect of all, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ragstore.chroma.records import RecordBatch, UpsertMetadata
from ragstore.errors import DocumentsExist, InvalidMetadata
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import Batch, Write
from ragstore.model.large_bodies.packed_embeddings import Embeddings, PackedEmbeddings, Row
from ragstore.model.large_bodies.packed_metadata import PackedMetadata
from ragstore.model.metadata import Metadata

MAX_REMOVED_KEYS: Final = 32_000
"""Keys that an upsert may remove from a document that it replaces. Each is one of the 32,766 variables of an SQL
statement: 32,765 fail this write and every later write to the collection (measured with Chroma 1.5.9). Only a document
that other clients wrote, in several merging upserts, has so many."""


@dataclass(frozen=True, slots=True)
class Merged:
    """One write with the effect of several.

    Attributes:
        records: n records, in the order in which their ids first appear; metadatas for Chroma's merging upsert.
        outcomes: the outcome of each of the several: an error, or None when it is included.
    """

    records: RecordBatch
    outcomes: list[ServiceError | None]


def ids_of(writes: Sequence[Write]) -> list[str]:
    """The distinct ids of some writes."""
    return list(dict.fromkeys(document_id for write in writes for document_id in write.batch.ids))


def merge(collection: str, writes: Sequence[Write], before: Mapping[str, Metadata]) -> Merged:
    """Merge writes.

    Args:
        collection: the collection's name, for errors.
        writes: one or more writes of embeddings of one dimension, in their order.
        before: metadata of the documents that exist, by id, of all ids that the writes name.

    Returns:
        The merged write. An add of an id that exists, or that an earlier write contains, is left out, and so is an
        upsert that would remove more than `MAX_REMOVED_KEYS` from a document.
    """
    outcomes: list[ServiceError | None] = []
    last: dict[str, tuple[int, int]] = {}
    for index, write in enumerate(writes):
        ids = write.batch.ids
        error = (
            _existing_ids(collection, ids, before, last) if write.kind == "add" else _too_many_keys(write.batch, before)
        )
        outcomes.append(error)
        if error is None:
            last.update((document_id, (index, row)) for row, document_id in enumerate(ids))
    batches = [write.batch for write in writes]
    records = RecordBatch(
        ids=list(last),
        embeddings=_rows([batch.embeddings for batch in batches], list(last.values())),
        texts=[batches[index].texts[row] for index, row in last.values()],
        metadatas=[
            upsert_metadata(batches[index].metadatas[row], before.get(key)) for key, (index, row) in last.items()
        ],
    )
    return Merged(records, outcomes)


def _existing_ids(
    collection: str, ids: list[str], before: Mapping[str, Metadata], earlier: Mapping[str, tuple[int, int]]
) -> DocumentsExist | None:
    """The error for an add of ids that exist."""
    taken = [row for row, key in enumerate(ids) if key in before or key in earlier]
    return DocumentsExist(collection, [ids[row] for row in taken], taken) if taken else None


def _too_many_keys(batch: Batch, before: Mapping[str, Metadata]) -> InvalidMetadata | None:
    """The error for an upsert that replaces a document with more keys than one write can remove."""
    for row, document_id in enumerate(batch.ids):
        present = before.get(document_id)
        if present is not None and len(present) > MAX_REMOVED_KEYS:
            message = f"The stored document has more than {MAX_REMOVED_KEYS} metadata keys; delete it first"
            return InvalidMetadata.at(f"$.documents[{row}].metadata", message)
    return None


def _rows(matrices: list[Embeddings], chosen: list[tuple[int, int]]) -> Embeddings:
    """Rows of several matrices as one matrix; the matrix itself, not a copy, where all rows of one are chosen."""
    if len(matrices) == 1 and len(chosen) == len(matrices[0]):
        return matrices[0]
    if not chosen:
        return matrices[0][:0]
    if any(isinstance(matrix, PackedEmbeddings) for matrix in matrices):
        return PackedEmbeddings([_packed_row(matrices[index], row) for index, row in chosen])
    return np.stack([matrices[index][row] for index, row in chosen])


def _packed_row(embeddings: Embeddings, row: int) -> Row:
    return embeddings.rows[row] if isinstance(embeddings, PackedEmbeddings) else embeddings[row]


def upsert_metadata(metadata: PackedMetadata, before: Metadata | None) -> UpsertMetadata:
    """Metadata for Chroma's merging upsert: a null for each key that the document had and has no longer."""
    removed = dict.fromkeys(key for key in before or {} if key not in metadata)
    # The metadata itself, not a copy, where nothing is removed: a write may have 500,000 values.
    return ({**removed, **metadata} if removed else metadata) or None
