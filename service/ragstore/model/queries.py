"""Similarity queries and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.schema_marks import PROBLEM_CODE, schema
from ragstore.model.collections import Collection
from ragstore.model.filters.condition import NO_CONDITION, Condition
from ragstore.model.metadata import Metadata
from ragstore.model.vectors import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Query:
    """A question.

    Attributes:
        embedding: vector of the collection's dimension.
        top_k: most results wanted, 1 or more.
        condition: only documents that meet this.
        with_embeddings: whether results carry their embeddings.
        max_distance: leave out documents that are farther away.
        min_score: leave out documents with a lower score.
    """

    embedding: Vector
    top_k: int
    condition: Condition = NO_CONDITION
    with_embeddings: bool = False
    max_distance: float | None = None
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Hits:
    """Answers to one query, by columns, nearest first.

    Attributes:
        ids: n ids.
        texts: n texts.
        metadatas: n metadatas.
        distances: n finite distances.
        embeddings: matrix of shape (n, dimension), or None when not asked for.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    distances: list[float]
    embeddings: Matrix | None


@dataclass(frozen=True, slots=True)
class Found:
    """What queries on a collection found.

    Attributes:
        collection: the collection as it was known when it was asked.
        hits: hits, one for each query.
    """

    collection: Collection
    hits: list[Hits]


class Match(Struct, frozen=True, omit_defaults=True):
    """A document that a query found."""

    id: Annotated[str, Meta(description="Its id.")]
    text: Annotated[str, Meta(description="Its text.")]
    metadata: Annotated[Metadata, Meta(description="Its metadata.")]
    distance: Annotated[float, Meta(description="From the query, by the collection's distance; less is nearer.")]
    score: Annotated[float, Meta(description="More is nearer. cosine and ip: 1 - distance; l2: 1 / (1 + distance).")]
    collection: Annotated[str | UnsetType, Meta(description="Where it was found; on `/query` only.")] = UNSET
    embedding: Annotated[Vector | UnsetType, schema("StoredEmbedding")] = UNSET


class CollectionError(Struct, frozen=True):
    """A collection that did not answer."""

    collection: Annotated[str, Meta(description="Its name.")]
    status: Annotated[int, Meta(description="The HTTP status that it alone would have got.")]
    code: Annotated[str, schema(PROBLEM_CODE)]
    detail: Annotated[str, Meta(description="Why.")]
