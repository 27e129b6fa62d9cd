"""Request bodies of similarity queries, parsed once into the query that the store receives."""

from __future__ import annotations

import math

from ragstore.api.schemas import MultiQueryRequest, QueryBase
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.numbers import whole_number
from ragstore.model.filters.condition import Condition
from ragstore.model.queries import Query
from ragstore.model.vectors import parse_embedding


def parse_query(request: QueryBase) -> Query:
    """Parse the request body of a query.

    Raises:
        InvalidDocuments: the embedding is invalid.
        InvalidFilter: a filter is invalid.
    """
    return Query(
        embedding=parse_embedding(request.query_embedding, "$.query_embedding"),
        top_k=whole_number(request.top_k, "$.top_k"),
        condition=Condition.parse(request.where, request.where_document),
        with_embeddings=bool(request.include),
        max_distance=_bound(request.max_distance, "$.max_distance"),
        min_score=_bound(request.min_score, "$.min_score"),
        with_texts="text" not in request.exclude,
    )


def _bound(value: float | None, path: str) -> float | None:
    """A bound of distances or scores.

    Raises:
        InvalidRequest: it is not a number, which MessagePack can express.
    """
    if value is not None and math.isnan(value):
        raise InvalidRequest.at(path, "A bound must be a number")
    return value


def resolve_collections(request: MultiQueryRequest) -> list[str]:
    """The names of the collections to query, without duplicates, in the order of the request.

    Raises:
        InvalidRequest: not exactly one of `collection` and `collections` is set.
    """
    if (request.collection is None) == (request.collections is None):
        message = "Either 'collection' or 'collections' must be given"
        raise InvalidRequest(message, [FieldError("$", message)])
    return list(dict.fromkeys(request.collections or [request.collection or ""]))
