"""Several writes made one, as if they had come one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragstore.chroma.backend import RecordBatch, WrittenMetadata
from ragstore.errors import DocumentsExist
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import Write
from ragstore.model.metadata import Metadata
from ragstore.model.vectors import Matrix


@dataclass(frozen=True, slots=True)
class Merged:
    """One write that leaves what several would leave.

    Attributes:
        records: n records, in the order in which their ids first came; metadatas for Chroma's merging upsert.
        outcomes: what each of the several is told: an error, or None when it is part of this.
    """

    records: RecordBatch
    outcomes: list[ServiceError | None]


def merge(collection: str, writes: Sequence[Write], before: Mapping[str, Metadata]) -> Merged:
    """Merge writes.

    Args:
        collection: the collection's name, for errors.
        writes: one or more writes of embeddings of one dimension, in their order.
        before: metadata of the documents that exist, by id, of all ids that the writes name.

    Returns:
        The merged write. An add of an id that exists, or that an earlier write brings, is no part of it.
    """
    outcomes: list[ServiceError | None] = []
    last: dict[str, tuple[int, int]] = {}
    for place, write in enumerate(writes):
        ids = write.batch.ids
        taken = [] if write.kind == "upsert" else [row for row, key in enumerate(ids) if key in before or key in last]
        outcomes.append(DocumentsExist(collection, [ids[row] for row in taken], taken) if taken else None)
        if not taken:
            last.update((document_id, (place, row)) for row, document_id in enumerate(ids))
    batches = [write.batch for write in writes]
    records = RecordBatch(
        ids=list(last),
        embeddings=_rows([batch.embeddings for batch in batches], list(last.values())),
        texts=[batches[place].texts[row] for place, row in last.values()],
        metadatas=[_written(batches[place].metadatas[row], before.get(key)) for key, (place, row) in last.items()],
    )
    return Merged(records, outcomes)


def _rows(matrices: list[Matrix], chosen: list[tuple[int, int]]) -> Matrix:
    """Rows of several matrices as one matrix; the one matrix itself where it is meant whole."""
    if len(matrices) == 1 and len(chosen) == len(matrices[0]):
        return matrices[0]
    if not chosen:
        return matrices[0][:0]
    return np.stack([matrices[place][row] for place, row in chosen])


def _written(metadata: Metadata, before: Metadata | None) -> WrittenMetadata:
    """Metadata for Chroma's merging upsert: what the document had and has no more is named as null."""
    removed = dict.fromkeys(key for key in before or {} if key not in metadata)
    return {**removed, **metadata} or None
