"""The query that a request's body means."""

from __future__ import annotations

from ragstore.api.schemas import MultiQueryRequest, QueryBase
from ragstore.kit.errors import FieldProblem, InvalidRequest
from ragstore.model.filters.condition import Condition
from ragstore.model.numbers import whole_number
from ragstore.model.queries import Query
from ragstore.model.vectors import parse_embedding


def parse_query(body: QueryBase) -> Query:
    """The query that a request means.

    Args:
        body: the request's body.

    Returns:
        The query for a store.

    Raises:
        InvalidDocuments: the embedding is not one.
        InvalidFilter: a filter is not of its language.
    """
    return Query(
        embedding=parse_embedding(body.query_embedding, "$.query_embedding"),
        top_k=whole_number(body.top_k, "$.top_k"),
        condition=Condition.parse(body.where, body.where_document),
        with_embeddings=bool(body.include),
        max_distance=body.max_distance,
        min_score=body.min_score,
    )


def resolve_collections(body: MultiQueryRequest) -> list[str]:
    """The collections that a request means, each once.

    Args:
        body: the request's body.

    Returns:
        Their names in the order of the request.

    Raises:
        InvalidRequest: not exactly one of `collection` and `collections` is given.
    """
    if (body.collection is None) == (body.collections is None):
        message = "Either 'collection' or 'collections' must be given"
        raise InvalidRequest(message, [FieldProblem("$", message)])
    return list(dict.fromkeys(body.collections or [body.collection or ""]))
