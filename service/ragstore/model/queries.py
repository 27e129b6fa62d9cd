"""Similarity queries and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.schema_marks import PROBLEM_CODE, schema
from ragstore.model.collections import Collection
from ragstore.model.filters.condition import NO_CONDITION, Condition
from ragstore.model.metadata import Metadata
from ragstore.model.vectors import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Query:
    """A similarity query.

    Attributes:
        embedding: vector of the collection's dimension.
        top_k: maximum number of results, at least 1.
        condition: filters over metadata and text.
        with_embeddings: whether results have their embeddings.
        max_distance: exclude documents with a greater distance.
        min_score: exclude documents with a lower score.
        may_be_short: whether fewer results than there are matches will do. Otherwise they are completed exactly.
        with_texts: whether results have their texts.
        matching_ids: ids of all documents that match the condition, if they are known. It must be exact here.
    """

    embedding: Vector
    top_k: int
    condition: Condition = NO_CONDITION
    with_embeddings: bool = False
    max_distance: float | None = None
    min_score: float | None = None
    may_be_short: bool = False
    with_texts: bool = True
    matching_ids: list[str] | None = None


FilterKey: TypeAlias = tuple[bytes, bool]
"""The key of queries that can share one call: their condition's key, and whether embeddings are requested."""


def group_by_filter(queries: Sequence[Query]) -> dict[FilterKey, list[int]]:
    """Group queries that can share one call.

    Args:
        queries: queries on one collection.

    Returns:
        For each filter, the indexes of its queries.
    """
    groups: dict[FilterKey, list[int]] = {}
    for index, query in enumerate(queries):
        groups.setdefault((query.condition.key, query.with_embeddings), []).append(index)
    return groups


@dataclass(frozen=True, slots=True)
class Matches:
    """The results of one query, by columns, nearest first.

    Attributes:
        ids: n ids.
        texts: n texts.
        metadatas: n metadatas.
        distances: n finite distances.
        embeddings: matrix of shape (n, dimension), or None if not requested.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    distances: list[float]
    embeddings: Matrix | None


@dataclass(frozen=True, slots=True)
class CollectionMatches:
    """The results of several queries on a collection.

    Attributes:
        collection: the collection at the time of the queries.
        matches: the results, one for each query.
        compared: number of documents that match the filter, after an exact query.
    """

    collection: Collection
    matches: list[Matches]
    compared: int = 0


class Match(Struct, frozen=True, omit_defaults=True):
    """A document that a query found."""

    id: Annotated[str, Meta(description="Its id.")]
    text: Annotated[str, Meta(description="Its text; empty if the request excludes texts.")]
    metadata: Annotated[Metadata, Meta(description="Its metadata.")]
    distance: Annotated[
        float, Meta(description="Distance from the query by the collection's distance function. Lower is nearer.")
    ]
    score: Annotated[
        float, Meta(description="Higher is nearer: 1 - distance for cosine and ip, 1 / (1 + distance) for l2.")
    ]
    collection: Annotated[str | UnsetType, Meta(description="Its collection; only in responses of `/query`.")] = UNSET
    embedding: Annotated[Vector | UnsetType, schema("StoredEmbedding")] = UNSET


class CollectionError(Struct, frozen=True):
    """A collection that failed in a query of several collections."""

    collection: Annotated[str, Meta(description="Its name.")]
    status: Annotated[int, Meta(description="The HTTP status that a query of this collection alone would return.")]
    code: Annotated[str, schema(PROBLEM_CODE)]
    detail: Annotated[str, Meta(description="The reason, for people.")]
