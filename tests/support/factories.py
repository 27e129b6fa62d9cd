"""Short ways to make what stores take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragstore.model.documents import Batch, Documents, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.model.vectors import Matrix
from ragstore.operations.write_documents import write_batch
from ragstore.store.protocol import Store


def matrix(*rows: Sequence[float]) -> Matrix:
    """A matrix of float32."""
    return np.array(rows, dtype=np.float32)


def batch(*ids: str, dimension: int = 2, text: str = "", metadata: Metadata | None = None) -> Batch:
    """Documents with these ids: the texts begin with the id, the vectors differ by their first number."""
    embeddings = np.ones((len(ids), dimension), dtype=np.float32)
    embeddings[:, 0] = np.arange(1, len(ids) + 1)
    return Batch(
        list(ids), [text or f"text of {name}" for name in ids], [dict(metadata or {}) for _ in ids], embeddings
    )


def batch_of(metadatas: Sequence[Metadata], texts: Sequence[str] | None = None) -> Batch:
    """Documents with these metadatas, whose ids are their indexes."""
    made = batch(*(str(index) for index in range(len(metadatas))))
    return Batch(made.ids, list(texts or made.texts), list(metadatas), made.embeddings)


def of_ids(*ids: str) -> Selection:
    """The documents with these ids."""
    return Selection(ids=ids)


def of_where(given: object) -> Selection:
    """The documents that a metadata filter selects."""
    return Selection(condition=Condition.parse(given))


def of_text(given: object) -> Selection:
    """The documents that a text filter selects."""
    return Selection(condition=Condition.parse(None, given))


def make_query(
    *embedding: float,
    top_k: int = 10,
    where_given: object = None,
    text_given: object = None,
    with_embeddings: bool = False,
) -> Query:
    """A query."""
    return Query(
        np.array(embedding, dtype=np.float32),
        top_k,
        Condition.parse(where_given, text_given),
        with_embeddings,
    )


def rows(documents: Documents) -> list[tuple[str, str, Metadata]]:
    """Documents row by row."""
    return list(zip(documents.ids, documents.texts, documents.metadatas, strict=True))


async def add_documents(store: Store, name: str, documents: Batch) -> None:
    """Add documents.

    Raises:
        ServiceError: they were not added.
    """
    await write_batch(store, name, Write("add", documents))


async def upsert_documents(store: Store, name: str, documents: Batch) -> None:
    """Add documents. A document replaces the stored document with its id.

    Raises:
        ServiceError: they were not written.
    """
    await write_batch(store, name, Write("upsert", documents))
