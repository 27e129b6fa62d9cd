"""The few calls of Chroma's v2 API that reading needs, and its stricter filter language.

Nothing here does I/O, and nothing needs the `chromadb` package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from ragstore_client._call import Call
from ragstore_client._exceptions import InvalidInput
from ragstore_client._json import encode, to_builtins
from ragstore_client._models import Scalar
from ragstore_client._responses import json_decoder

if TYPE_CHECKING:
    from array import array

    from ragstore_client._models import Where

ChromaMetadata = dict[str, Scalar | list[Scalar] | None]


class Heartbeat(msgspec.Struct):
    """By this one knows a Chroma server."""

    nanoseconds: int = msgspec.field(name="nanosecond heartbeat")


class _Hnsw(msgspec.Struct):
    space: str | None = None


class _Configuration(msgspec.Struct):
    hnsw: _Hnsw | None = None
    spann: _Hnsw | None = None


class ChromaCollection(msgspec.Struct):
    """A collection, as Chroma tells it."""

    id: str
    name: str
    dimension: int | None = None
    configuration_json: _Configuration = msgspec.field(default_factory=_Configuration)

    @property
    def space(self) -> str:
        """How it measures: `cosine`, `l2` or `ip`; Chroma's own default is l2."""
        index = self.configuration_json.hnsw or self.configuration_json.spann
        return (index.space if index else None) or "l2"


class ChromaQueryResult(msgspec.Struct):
    """The nearest records for each query vector, as columns."""

    ids: list[list[str]]
    documents: list[list[str | None]]
    metadatas: list[list[ChromaMetadata | None]]
    distances: list[list[float | None]]


class ChromaRecords(msgspec.Struct):
    """Records, as columns."""

    ids: list[str]
    documents: list[str | None]
    metadatas: list[ChromaMetadata | None]


class ChromaDatabase(msgspec.Struct, frozen=True):
    """Builds the calls on one database of one tenant.

    Attributes:
        tenant: the tenant.
        database: the database.
    """

    tenant: str = "default_tenant"
    database: str = "default_database"

    def get_collection(self, name: str) -> Call[ChromaCollection]:
        """A collection by its name."""
        return Call("GET", f"{self._path}/collections/{quote(name, safe='')}", json_decoder(ChromaCollection))

    def list_collections(self, *, limit: int, offset: int) -> Call[list[ChromaCollection]]:
        """A page of collections."""
        params = (("limit", str(limit)), ("offset", str(offset)))
        return Call("GET", f"{self._path}/collections", json_decoder(list[ChromaCollection]), params=params)

    def count_collections(self) -> Call[int]:
        """How many collections there are."""
        return Call("GET", f"{self._path}/collections_count", json_decoder(int))

    def query(
        self, collection_id: str, vector: array[float], *, top_k: int, where: Mapping[str, object]
    ) -> Call[ChromaQueryResult]:
        """The records nearest to a vector. Chroma takes query vectors as JSON numbers only."""
        words = {
            "query_embeddings": [vector.tolist()],
            "n_results": top_k,
            "include": ["documents", "metadatas", "distances"],
            **_where_member(where),
        }
        return Call("POST", self._records(collection_id, "query"), json_decoder(ChromaQueryResult), body=encode(words))

    def get(self, collection_id: str, *, where: Mapping[str, object], limit: int, offset: int) -> Call[ChromaRecords]:
        """A page of the records that a filter selects."""
        words = {"limit": limit, "offset": offset, "include": ["documents", "metadatas"], **_where_member(where)}
        return Call("POST", self._records(collection_id, "get"), json_decoder(ChromaRecords), body=encode(words))

    def _records(self, collection_id: str, verb: str) -> str:
        return f"{self._path}/collections/{quote(collection_id, safe='')}/{verb}"

    @property
    def _path(self) -> str:
        return f"/api/v2/tenants/{quote(self.tenant, safe='')}/databases/{quote(self.database, safe='')}"


def heartbeat() -> Call[Heartbeat]:
    """Whether a Chroma server is there."""
    return Call("GET", "/api/v2/heartbeat", json_decoder(Heartbeat))


def version() -> Call[str]:
    """The version that Chroma's API says it has."""
    return Call("GET", "/api/v2/version", json_decoder(str))


def to_chroma_where(where: Where | None) -> dict[str, object]:
    """Say a filter in Chroma's own, stricter language.

    The contract lets several fields, and several operators on a field, stand side by side to mean AND, takes an empty
    filter for none, and `$and` or `$or` of one clause for that clause. Chroma refuses all of these.

    Args:
        where: a filter in the contract's language.

    Returns:
        The same for Chroma; empty for no filter.

    Raises:
        InvalidInput: it holds what JSON cannot say, or `$and` or `$or` holds no list of filters.
    """
    reduced = to_builtins(where or {}, "$.where")
    return _to_chroma(reduced) if isinstance(reduced, dict) else {}


def _to_chroma(where: Mapping[str, object]) -> dict[str, object]:
    clauses = [clause for field, condition in where.items() for clause in _clauses(field, condition)]
    return _combine("$and", clauses)


def _clauses(field: str, condition: object) -> list[dict[str, object]]:
    if field in ("$and", "$or"):
        if not isinstance(condition, list) or not all(isinstance(part, Mapping) for part in condition):
            raise InvalidInput(f"{field} must be a list of filters")
        parts = [_to_chroma(part) for part in condition]
        if field == "$or" and not all(parts):
            return []  # one alternative is no restriction, so neither is the whole
        joined = _combine(field, [part for part in parts if part])
        return [joined] if joined else []
    if isinstance(condition, Mapping) and len(condition) > 1:
        return [{field: {operator: operand}} for operator, operand in condition.items()]
    return [{field: condition}]


def _combine(operator: str, clauses: Sequence[dict[str, object]]) -> dict[str, object]:
    if len(clauses) > 1:
        return {operator: list(clauses)}
    return dict(clauses[0]) if clauses else {}


def _where_member(where: Mapping[str, object]) -> dict[str, object]:
    return {"where": where} if where else {}
