"""The calls of Chroma's v2 API for reading, and the translation into its stricter filter language.

Nothing here does I/O, and nothing needs the `chromadb` package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from ragstore_client._call import Call
from ragstore_client._exceptions import InvalidInput
from ragstore_client._json import encode, to_builtins
from ragstore_client._models import Scalar, Where
from ragstore_client._responses import json_decoder
from ragstore_client._types import FloatArray

ChromaMetadata = dict[str, Scalar | list[Scalar] | None]


class _Hnsw(msgspec.Struct):
    space: str | None = None


class _Configuration(msgspec.Struct):
    hnsw: _Hnsw | None = None
    spann: _Hnsw | None = None


class ChromaCollection(msgspec.Struct):
    """A collection, as Chroma returns it."""

    id: str
    name: str
    dimension: int | None = None
    configuration_json: _Configuration = msgspec.field(default_factory=_Configuration)

    @property
    def space(self) -> str:
        """The distance function: `cosine`, `l2` or `ip`; Chroma's default is l2."""
        index = self.configuration_json.hnsw or self.configuration_json.spann
        return (index.space if index else None) or "l2"


class ChromaQueryResult(msgspec.Struct):
    """The nearest records for each query vector, as columns."""

    ids: list[list[str]]
    documents: list[list[str | None]]
    metadatas: list[list[ChromaMetadata | None]]
    distances: list[list[float | None]]
    embeddings: list[list[list[float]]] | None = None


class ChromaRecords(msgspec.Struct):
    """Records, as columns."""

    ids: list[str]
    documents: list[str | None]
    metadatas: list[ChromaMetadata | None]


class ChromaDatabase(msgspec.Struct, frozen=True):
    """Makes the calls on one database of one tenant."""

    tenant: str = "default_tenant"
    database: str = "default_database"

    def get_collection(self, name: str) -> Call[ChromaCollection]:
        """Get a collection by name."""
        return Call("GET", f"{self._path}/collections/{quote(name, safe='')}", json_decoder(ChromaCollection))

    def list_collections(self, *, limit: int, offset: int) -> Call[list[ChromaCollection]]:
        """List a page of collections."""
        params = (("limit", str(limit)), ("offset", str(offset)))
        return Call("GET", f"{self._path}/collections", json_decoder(list[ChromaCollection]), params=params)

    def count_collections(self) -> Call[int]:
        """Count the collections."""
        return Call("GET", f"{self._path}/collections_count", json_decoder(int))

    def query(
        self,
        collection_id: str,
        vector: FloatArray,
        *,
        top_k: int,
        where: Mapping[str, object],
        include_embeddings: bool = False,
    ) -> Call[ChromaQueryResult]:
        """Find the records nearest to a vector. Chroma accepts query vectors as JSON numbers only."""
        body = {
            "query_embeddings": [vector.tolist()],
            "n_results": top_k,
            "include": ["documents", "metadatas", "distances", *(["embeddings"] if include_embeddings else [])],
            **_where_member(where),
        }
        return Call("POST", self._records(collection_id, "query"), json_decoder(ChromaQueryResult), body=encode(body))

    def get(self, collection_id: str, *, where: Mapping[str, object], limit: int, offset: int) -> Call[ChromaRecords]:
        """Get a page of the records that a filter selects."""
        body = {"limit": limit, "offset": offset, "include": ["documents", "metadatas"], **_where_member(where)}
        return Call("POST", self._records(collection_id, "get"), json_decoder(ChromaRecords), body=encode(body))

    def _records(self, collection_id: str, verb: str) -> str:
        return f"{self._path}/collections/{quote(collection_id, safe='')}/{verb}"

    @property
    def _path(self) -> str:
        return f"/api/v2/tenants/{quote(self.tenant, safe='')}/databases/{quote(self.database, safe='')}"


def version() -> Call[str]:
    """Get the version of the API."""
    return Call("GET", "/api/v2/version", json_decoder(str))


def to_chroma_where(where: Where | None) -> dict[str, object]:
    """Translate a filter into Chroma's stricter language.

    The contract combines several fields, and several operators on a field, by AND. It treats an empty filter as no
    filter, and `$and` or `$or` of one clause as that clause. Chroma rejects all of these.

    Args:
        where: a filter in the contract's language.

    Returns:
        The filter in Chroma's language; empty for no filter.

    Raises:
        InvalidInput: the filter contains a value that JSON cannot represent, or `$and` or `$or` has no list of filters.
    """
    builtins = to_builtins(where or {}, "$.where")
    return _to_chroma(builtins) if isinstance(builtins, dict) else {}


def _to_chroma(where: Mapping[str, object]) -> dict[str, object]:
    clauses = [clause for field, condition in where.items() for clause in _clauses(field, condition)]
    return _combine("$and", clauses)


def _clauses(field: str, condition: object) -> list[dict[str, object]]:
    if field in ("$and", "$or"):
        if not isinstance(condition, list) or not all(isinstance(clause, Mapping) for clause in condition):
            raise InvalidInput(f"{field} must be a list of filters")
        clauses = [_to_chroma(clause) for clause in condition]
        if field == "$or" and not all(clauses):
            return []  # one alternative selects everything, so the disjunction does
        combined = _combine(field, [clause for clause in clauses if clause])
        return [combined] if combined else []
    if isinstance(condition, Mapping) and len(condition) > 1:
        return [{field: {operator: operand}} for operator, operand in condition.items()]
    return [{field: condition}]


def _combine(operator: str, clauses: Sequence[dict[str, object]]) -> dict[str, object]:
    if len(clauses) > 1:
        return {operator: list(clauses)}
    return dict(clauses[0]) if clauses else {}


def _where_member(where: Mapping[str, object]) -> dict[str, object]:
    return {"where": where} if where else {}
