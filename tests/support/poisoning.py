"""Collections in which every write fails and, after a restart of Chroma, every read, too."""

from __future__ import annotations

import numpy as np
import pytest

from ragstore.chroma.backend import Backend
from ragstore.chroma.operations import CreateCollection, UpsertRecords
from ragstore.chroma.records import RecordBatch
from ragstore.errors import ChromaFailed
from ragstore.model.metadata import Metadata
from tests.support.factories import batch

TOO_MANY = 5_500
"""Metadata values that Chroma takes into its log, but cannot apply."""

POISON: dict[str, Metadata] = {
    "keys": {f"key-{number}": number for number in range(TOO_MANY)},
    "list members": {"list": list(range(TOO_MANY))},
}


async def poison(backend: Backend, name: str, metadata: Metadata) -> None:
    """Write a collection of three documents, and then what poisons it, beside an innocent document.

    Args:
        backend: Chroma.
        name: the collection, which is made here.
        metadata: one of `POISON`.
    """
    collection = await backend.call(CreateCollection(name, {}, "l2"))
    good = batch("one", "two", "three", metadata={"tags": ["a", "b"], "page": 1})
    await backend.call(
        UpsertRecords(
            collection.id, RecordBatch(good.ids, good.embeddings, good.texts, [{**each} for each in good.metadatas])
        )
    )
    bad = RecordBatch(["innocent", "bad"], np.ones((2, 2), dtype=np.float32), ["", ""], [{"page": 2}, dict(metadata)])
    for records in (bad, RecordBatch(["later"], np.ones((1, 2), dtype=np.float32), ["later"], [None])):
        with pytest.raises(ChromaFailed):
            await backend.call(UpsertRecords(collection.id, records))
