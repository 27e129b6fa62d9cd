"""Every call of the contract, as a value: what to send, and how to read the answer.

Nothing here does I/O. `Client` and `AsyncClient` carry out the same calls, each in its own way.

A filter travels in a body, never in a URL: it holds metadata values, and URLs end up in logs.
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
"""Most documents that the service returns in one page."""


class DocumentFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which documents, and how much of them.

    Attributes:
        where: a filter on metadata.
        where_document: a filter on texts.
        ids: only these.
        include_embeddings: whether the vectors are wanted too.
    """

    where: Where | None = None
    where_document: Where | None = None
    ids: Sequence[str] | None = None
    include_embeddings: bool = False

    def to_body(self) -> dict[str, object]:
        """The filter as members of a request's body."""
        return _drop_none(
            where=None if self.where is None else to_builtins(self.where, "$.where"),
            where_document=None
            if self.where_document is None
            else to_builtins(self.where_document, "$.where_document"),
            ids=None if self.ids is None else list(self.ids),
            include=["embedding"] if self.include_embeddings else None,
        )


class SimilaritySearch(msgspec.Struct, frozen=True, kw_only=True):
    """What a similarity search asks for.

    Attributes:
        embedding: the query's vector.
        top_k: most matches, 1 to 1000.
        max_distance: leave out what is farther.
        min_score: leave out what scores lower.
    """

    embedding: Embedding
    top_k: int = 5
    max_distance: float | None = None
    min_score: float | None = None

    def to_body(self) -> dict[str, object]:
        """The search as members of a request's body."""
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
) -> Call[models.CollectionCreated]:
    """`POST /collections`."""
    body = _drop_none(
        name=name,
        metadata=None if metadata is None else to_builtins(metadata, "$.metadata"),
        embedding_provider=embedding_provider,
        embedding_model=embedding_model,
        distance=distance,
        get_or_create=get_or_create or None,
    )
    reader = json_decoder(models.CollectionCreated)
    return Call("POST", "/collections", reader, body=encode(body), idempotent=get_or_create)


def list_collections(*, limit: int | None, offset: int | None) -> Call[models.CollectionPage]:
    """`GET /collections`."""
    return Call(
        "GET",
        "/collections",
        json_decoder(models.CollectionPage),
        params=_params(limit=limit, offset=offset),
    )


def get_collection(name: str) -> Call[models.Collection]:
    """`GET /collections/{collection_name}`."""
    return Call("GET", _collection(name), json_decoder(models.Collection))


def update_metadata(name: str, metadata: Metadata, *, merge: bool) -> Call[models.MetadataUpdated]:
    """`PUT /collections/{collection_name}/metadata`."""
    body = encode({"metadata": to_builtins(metadata, "$.metadata")})
    params = _params(merge="true" if merge else None)
    return Call(
        "PUT",
        _collection(name) + "/metadata",
        json_decoder(models.MetadataUpdated),
        params=params,
        body=body,
    )


def delete_collection(name: str) -> Call[models.CollectionDeleted]:
    """`DELETE /collections/{collection_name}`."""
    gone = models.CollectionDeleted(status="deleted", name=name)
    return Call("DELETE", _collection(name), json_decoder(models.CollectionDeleted), result_if_gone=gone)


def metadata_values(name: str, field: str, *, limit: int | None) -> Call[models.MetadataValues]:
    """`GET /collections/{collection_name}/metadata-values`."""
    params = _params(field=field, limit=limit)
    return Call("GET", _collection(name) + "/metadata-values", json_decoder(models.MetadataValues), params=params)


# -- documents -----------------------------------------------------------------------------------


def encode_document(document: NewDocument) -> bytes:
    """Write one document as it stands in a request.

    Args:
        document: the document.

    Returns:
        A JSON object.

    Raises:
        InvalidInput: its vector, or a value of its metadata, cannot be sent.
    """
    return encode(
        _drop_none(
            id=document.id,
            text=document.text,
            embedding=to_base64(document.embedding),
            metadata=None if document.metadata is None else to_builtins(document.metadata, "$.metadata"),
        )
    )


def encode_documents(documents: Iterable[NewDocument]) -> bytes:
    """Write the body of a request that stores documents.

    Args:
        documents: the documents.

    Returns:
        A JSON object.

    Raises:
        InvalidInput: a document cannot be sent.
    """
    return documents_body(encode_document(document) for document in documents)


def documents_body(documents: Iterable[bytes]) -> bytes:
    """Put encoded documents together to the body of one request."""
    return b'{"documents":[' + b",".join(documents) + b"]}"


def add_documents(collection: str, body: bytes) -> Call[models.WriteResult]:
    """`POST /collections/{c}/documents`."""
    path = _collection(collection) + "/documents"
    return Call("POST", path, json_decoder(models.WriteResult), body=body, idempotent=False)


def upsert_documents(collection: str, body: bytes) -> Call[models.WriteResult]:
    """`PUT /collections/{c}/documents`."""
    return Call("PUT", _collection(collection) + "/documents", json_decoder(models.WriteResult), body=body)


def list_documents(
    collection: str, filter_: DocumentFilter, *, limit: int | None, offset: int | None, total: bool
) -> Call[models.DocumentPage]:
    """`GET /collections/{c}/documents`, or `POST .../filter` when there is something to filter by."""
    path, reader = _collection(collection) + "/documents", json_decoder(models.DocumentPage)
    body = filter_.to_body()
    if set(body) <= {"include"}:
        params = _params(
            limit=limit,
            offset=offset,
            include="embedding" if filter_.include_embeddings else None,
            total=None if total else "false",
        )
        return Call("GET", path, reader, params=params)
    encoded = encode(body | _drop_none(limit=limit, offset=offset) | {"total": total})
    return Call("POST", path + "/filter", reader, body=encoded)


def get_document(collection: str, document_id: str) -> Call[models.Document]:
    """`GET /collections/{c}/documents/{id}`."""
    if document_id in (".", ".."):
        # Proxies and servers take these out of a path, encoded or not.
        body = encode({"ids": [document_id], "total": False})
        return Call("POST", _collection(collection) + "/documents/filter", _only_document, body=body)
    return Call("GET", f"{_collection(collection)}/documents/{_segment(document_id)}", json_decoder(models.Document))


def delete_documents(collection: str, *, ids: Sequence[str] | None, where: Where | None) -> Call[models.DeleteResult]:
    """`POST /collections/{c}/documents/delete`."""
    body = encode(DocumentFilter(ids=ids, where=where).to_body())
    return Call(
        "POST",
        _collection(collection) + "/documents/delete",
        json_decoder(models.DeleteResult),
        body=body,
    )


def empty_collection(collection: str) -> Call[models.DeleteAllResult]:
    """`DELETE /collections/{c}/documents/all`."""
    return Call("DELETE", _collection(collection) + "/documents/all", json_decoder(models.DeleteAllResult))


# -- similarity ----------------------------------------------------------------------------------


def query(collection: str, search: SimilaritySearch, filter_: DocumentFilter) -> Call[models.QueryResults]:
    """`POST /collections/{c}/query`."""
    body = encode(search.to_body() | filter_.to_body())
    return Call("POST", _collection(collection) + "/query", json_decoder(models.QueryResults), body=body)


def query_collections(
    collections: str | Sequence[str], search: SimilaritySearch, filter_: DocumentFilter
) -> Call[models.MultiQueryResults]:
    """`POST /query`."""
    where: dict[str, object]
    where = {"collection": collections} if isinstance(collections, str) else {"collections": list(collections)}
    body = encode(where | search.to_body() | filter_.to_body())
    return Call("POST", "/query", json_decoder(models.MultiQueryResults), body=body)


# -- service -------------------------------------------------------------------------------------


def info() -> Call[models.ServiceInfo]:
    """`GET /`."""
    return Call("GET", "/", json_decoder(models.ServiceInfo))


def health() -> Call[models.Health]:
    """`GET /health`, whose 503 is an answer too."""
    return Call("GET", "/health", json_decoder(models.Health), accepted_statuses=(503,))


def probe(name: str) -> Call[models.Probe]:
    """`GET /health/live` and `GET /health/ready`, whose 503 is an answer too."""
    return Call("GET", f"/health/{name}", json_decoder(models.Probe), accepted_statuses=(503,))


def page(path: str) -> Call[str]:
    """`GET /metrics`, `GET /openapi.json` and `GET /docs`: texts for others to read."""
    return Call("GET", path, decode_text)


# -- parts ---------------------------------------------------------------------------------------


def _only_document(body: bytes) -> models.Document:
    found = json_decoder(models.DocumentPage)(body).documents
    if not found:
        raise NotFound(404, "Not found", "Document not found")
    return found[0]


def _collection(name: str) -> str:
    return f"/collections/{_segment(name)}"


def _segment(name: str) -> str:
    if name in ("", ".", ".."):
        # As a part of a path these mean something else, to every proxy on the way.
        raise InvalidInput(f"{name!r} cannot stand in a path")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise InvalidInput("a name holds a lone surrogate, which is not Unicode") from None


def _drop_none(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _params(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in values.items() if value is not None)
