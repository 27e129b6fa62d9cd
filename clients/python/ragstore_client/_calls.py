"""Every call of ragstore's HTTP contract, as a value: what to send, and how to decode the response.

Nothing here does I/O. `Client` and `AsyncClient` send the same calls.

A filter is sent in a body, never in a URL: it contains metadata values, and URLs are logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from ragstore_client import _models as models
from ragstore_client._call import Call
from ragstore_client._exceptions import InvalidInput, NotFound
from ragstore_client._json import encode, to_builtins
from ragstore_client._responses import decode_text, json_decoder
from ragstore_client._vectors import to_base64

if TYPE_CHECKING:
    from ragstore_client._models import Distance, Embedding, Metadata, NewDocument, Where

MAX_PAGE_SIZE = 1000
"""Maximum number of documents that the service returns in one page."""


class DocumentFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects documents, and whether their vectors are returned.

    Attributes:
        where: a filter on metadata.
        where_document: a filter on texts.
        ids: select only these.
        include_embeddings: return the vectors as well.
    """

    where: Where | None = None
    where_document: Where | None = None
    ids: Sequence[str] | None = None
    include_embeddings: bool = False

    def to_body(self) -> dict[str, object]:
        """The members of the request's body."""
        where, where_document = self.where, self.where_document
        return _drop_none(
            where=None if where is None else to_builtins(where, "$.where"),
            where_document=None if where_document is None else to_builtins(where_document, "$.where_document"),
            ids=None if self.ids is None else list(self.ids),
            include=["embedding"] if self.include_embeddings else None,
        )


class SimilaritySearch(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a similarity search.

    Attributes:
        embedding: the query vector.
        top_k: maximum number of matches, 1 to 1000.
        max_distance: omit matches with a larger distance.
        min_score: omit matches with a lower score.
    """

    embedding: Embedding
    top_k: int = 5
    max_distance: float | None = None
    min_score: float | None = None

    def to_body(self) -> dict[str, object]:
        """The members of the request's body."""
        return _drop_none(
            query_embedding=to_base64(self.embedding),
            top_k=self.top_k,
            max_distance=self.max_distance,
            min_score=self.min_score,
        )


# -- collections ---------------------------------------------------------------------------------


def create_collection(
    name: str,
    *,
    metadata: Metadata | None,
    embedding_provider: str | None,
    embedding_model: str | None,
    distance: Distance | None,
    get_or_create: bool,
    hnsw: models.HnswParameters | None,
) -> Call[models.CollectionCreated]:
    """`POST /collections`."""
    body = _drop_none(
        name=name,
        metadata=None if metadata is None else to_builtins(metadata, "$.metadata"),
        embedding_provider=embedding_provider,
        embedding_model=embedding_model,
        distance=distance,
        get_or_create=get_or_create or None,
        hnsw=hnsw,
    )
    decode = json_decoder(models.CollectionCreated)
    return Call("POST", "/collections", decode, body=encode(body), idempotent=get_or_create)


def list_collections(*, limit: int | None, offset: int | None, counts: bool = False) -> Call[models.CollectionPage]:
    """`GET /collections`."""
    params = _params(limit=limit, offset=offset, counts="true" if counts else None)
    return Call("GET", "/collections", json_decoder(models.CollectionPage), params=params)


def get_collection(name: str) -> Call[models.Collection]:
    """`GET /collections/{collection_name}`."""
    return Call("GET", _collection_path(name), json_decoder(models.Collection))


def update_metadata(name: str, metadata: Metadata, *, merge: bool) -> Call[models.MetadataUpdated]:
    """`PUT /collections/{collection_name}/metadata`."""
    body = encode({"metadata": to_builtins(metadata, "$.metadata")})
    params = _params(merge="true" if merge else None)
    path = _collection_path(name) + "/metadata"
    return Call("PUT", path, json_decoder(models.MetadataUpdated), params=params, body=body)


def delete_collection(name: str) -> Call[models.CollectionDeleted]:
    """`DELETE /collections/{collection_name}`."""
    deleted = models.CollectionDeleted(status="deleted", name=name)
    return Call("DELETE", _collection_path(name), json_decoder(models.CollectionDeleted), result_if_gone=deleted)


def metadata_values(name: str, field: str, *, limit: int | None) -> Call[models.MetadataValues]:
    """`GET /collections/{collection_name}/metadata-values`."""
    params = _params(field=field, limit=limit)
    path = _collection_path(name) + "/metadata-values"
    return Call("GET", path, json_decoder(models.MetadataValues), params=params)


# -- documents -----------------------------------------------------------------------------------


def encode_document(document: NewDocument) -> bytes:
    """Encode one document of a request.

    Args:
        document: the document.

    Returns:
        A JSON object.

    Raises:
        InvalidInput: the vector, or a metadata value, cannot be sent.
    """
    metadata = document.metadata
    return encode(
        _drop_none(
            id=document.id,
            text=document.text,
            embedding=to_base64(document.embedding),
            metadata=None if metadata is None else to_builtins(metadata, "$.metadata"),
        )
    )


def encode_documents(documents: Iterable[NewDocument]) -> bytes:
    """Encode the body of a request that stores documents.

    Args:
        documents: the documents.

    Returns:
        A JSON object.

    Raises:
        InvalidInput: a document cannot be sent.
    """
    return documents_body(encode_document(document) for document in documents)


def documents_body(documents: Iterable[bytes]) -> bytes:
    """Join encoded documents into the body of one request."""
    return b'{"documents":[' + b",".join(documents) + b"]}"


def add_documents(collection: str, body: bytes) -> Call[models.WriteResult]:
    """`POST /collections/{c}/documents`."""
    path = _collection_path(collection) + "/documents"
    return Call("POST", path, json_decoder(models.WriteResult), body=body, idempotent=False)


def upsert_documents(collection: str, body: bytes) -> Call[models.WriteResult]:
    """`PUT /collections/{c}/documents`."""
    return Call("PUT", _collection_path(collection) + "/documents", json_decoder(models.WriteResult), body=body)


def list_documents(
    collection: str, filter_: DocumentFilter, *, limit: int | None, offset: int | None, total: bool
) -> Call[models.DocumentPage]:
    """`GET /collections/{c}/documents`, or `POST .../filter` when there is a filter."""
    path, decode = _collection_path(collection) + "/documents", json_decoder(models.DocumentPage)
    members = filter_.to_body()
    if members.keys() <= {"include"}:
        params = _params(
            limit=limit,
            offset=offset,
            include="embedding" if filter_.include_embeddings else None,
            total=None if total else "false",
        )
        return Call("GET", path, decode, params=params)
    body = encode(members | _drop_none(limit=limit, offset=offset) | {"total": total})
    return Call("POST", path + "/filter", decode, body=body)


def get_document(collection: str, document_id: str) -> Call[models.Document]:
    """`GET /collections/{c}/documents/{id}`."""
    if document_id in (".", ".."):
        # Proxies and servers remove these segments from a path, even percent-encoded.
        body = encode({"ids": [document_id], "total": False})
        return Call("POST", _collection_path(collection) + "/documents/filter", _decode_only_document, body=body)
    path = f"{_collection_path(collection)}/documents/{_path_segment(document_id)}"
    return Call("GET", path, json_decoder(models.Document))


def delete_documents(collection: str, *, ids: Sequence[str] | None, where: Where | None) -> Call[models.DeleteResult]:
    """`POST /collections/{c}/documents/delete`."""
    body = encode(DocumentFilter(ids=ids, where=where).to_body())
    path = _collection_path(collection) + "/documents/delete"
    return Call("POST", path, json_decoder(models.DeleteResult), body=body)


def empty_collection(collection: str) -> Call[models.DeleteAllResult]:
    """`DELETE /collections/{c}/documents/all`."""
    return Call("DELETE", _collection_path(collection) + "/documents/all", json_decoder(models.DeleteAllResult))


# -- similarity ----------------------------------------------------------------------------------


def query(collection: str, search: SimilaritySearch, filter_: DocumentFilter) -> Call[models.QueryResults]:
    """`POST /collections/{c}/query`."""
    body = encode(search.to_body() | filter_.to_body())
    return Call("POST", _collection_path(collection) + "/query", json_decoder(models.QueryResults), body=body)


def query_collections(
    collections: str | Sequence[str], search: SimilaritySearch, filter_: DocumentFilter
) -> Call[models.MultiQueryResults]:
    """`POST /query`."""
    members: dict[str, object]
    members = {"collection": collections} if isinstance(collections, str) else {"collections": list(collections)}
    body = encode(members | search.to_body() | filter_.to_body())
    return Call("POST", "/query", json_decoder(models.MultiQueryResults), body=body)


# -- service -------------------------------------------------------------------------------------


def info() -> Call[models.ServiceInfo]:
    """`GET /`."""
    return Call("GET", "/", json_decoder(models.ServiceInfo))


def health() -> Call[models.Health]:
    """`GET /health`; a 503 carries a result as well."""
    return Call("GET", "/health", json_decoder(models.Health), accepted_statuses=(503,))


def probe(name: str) -> Call[models.Probe]:
    """`GET /health/live` and `GET /health/ready`; a 503 carries a result as well."""
    return Call("GET", f"/health/{name}", json_decoder(models.Probe), accepted_statuses=(503,))


def page(path: str) -> Call[str]:
    """`GET /metrics`, `GET /openapi.json` and `GET /docs`: text."""
    return Call("GET", path, decode_text)


# -- shared --------------------------------------------------------------------------------------


def _decode_only_document(body: bytes) -> models.Document:
    documents = json_decoder(models.DocumentPage)(body).documents
    if not documents:
        raise NotFound(404, "Not found", "Document not found")
    return documents[0]


def _collection_path(name: str) -> str:
    return f"/collections/{_path_segment(name)}"


def _path_segment(name: str) -> str:
    if name in ("", ".", ".."):
        # As segments of a path these have another meaning for every proxy.
        raise InvalidInput(f"{name!r} cannot be a segment of a path")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise InvalidInput("a name contains a lone surrogate, which is not Unicode") from None


def _drop_none(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _params(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in values.items() if value is not None)
