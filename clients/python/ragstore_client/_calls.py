"""Every call of ragstore's HTTP contract, as a value: what to send, and how to decode the response.

Nothing here does I/O. `Client` and `AsyncClient` send the same calls.

A filter is sent in a body, never in a URL: it contains metadata values, and URLs are logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ragstore_client import _models as models
from ragstore_client._binary_responses import ACCEPT, decode_documents, decode_results
from ragstore_client._call import Call, path_segment, query_params
from ragstore_client._exceptions import InvalidInput, NotFound
from ragstore_client._json import drop_none, encode, to_builtins, to_strings, to_text
from ragstore_client._models import Distance, Embedding, Metadata, NewDocument, NewDocumentLike, Strings, Where
from ragstore_client._responses import decode_text, json_decoder
from ragstore_client._vectors import dimension_of, encode_vector

MAX_PAGE_SIZE = 1000
"""Maximum number of documents that the service returns in one page."""


class DocumentFilter(msgspec.Struct, frozen=True):
    """Selects documents, and whether their vectors are returned.

    Attributes:
        where: a filter on metadata.
        where_document: a filter on texts.
        include_embeddings: return the vectors as well.
        include_texts: return the texts.
        ids: select only these.
    """

    where: Where | None = None
    where_document: Where | None = None
    include_embeddings: bool = False
    include_texts: bool = True
    ids: Strings | None = None

    def to_body(self) -> dict[str, object]:
        """The members of the request's body."""
        where, where_document = self.where, self.where_document
        return drop_none(
            where=None if where is None else to_builtins(where, "$.where"),
            where_document=None if where_document is None else to_builtins(where_document, "$.where_document"),
            ids=None if self.ids is None else to_strings(self.ids, "ids"),
            include=["embedding"] if self.include_embeddings else None,
            exclude=None if self.include_texts else ["text"],
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
        return drop_none(
            query_embedding=encode_vector(self.embedding),
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
    body = drop_none(
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


def list_collections(*, limit: int | None, offset: int | None, counts: bool = True) -> Call[models.CollectionPage]:
    """`GET /collections`."""
    params = query_params(limit=limit, offset=offset, counts=None if counts else "false")
    return Call("GET", "/collections", json_decoder(models.CollectionPage), params=params)


def get_collection(name: str) -> Call[models.Collection]:
    """`GET /collections/{collection_name}`."""
    return Call("GET", _collection_path(name), json_decoder(models.Collection))


def update_metadata(name: str, metadata: Metadata, *, merge: bool) -> Call[models.MetadataUpdated]:
    """`PUT /collections/{collection_name}/metadata`."""
    body = encode({"metadata": to_builtins(metadata, "$.metadata")})
    params = query_params(merge="true" if merge else None)
    path = _collection_path(name) + "/metadata"
    return Call("PUT", path, json_decoder(models.MetadataUpdated), params=params, body=body)


def delete_collection(name: str) -> Call[models.CollectionDeleted]:
    """`DELETE /collections/{collection_name}`."""
    deleted = models.CollectionDeleted(status="deleted", name=name)
    return Call("DELETE", _collection_path(name), json_decoder(models.CollectionDeleted), result_if_gone=deleted)


def start_rebuild(name: str, *, hnsw: models.HnswParameters | None, sample: int | None) -> Call[models.Rebuild]:
    """`POST /collections/{collection_name}/rebuild`."""
    given = {} if hnsw is None else msgspec.structs.asdict(hnsw)
    path = _collection_path(name) + "/rebuild"
    return Call(
        "POST", path, json_decoder(models.Rebuild), params=query_params(**given, sample=sample), idempotent=False
    )


def get_rebuild(name: str) -> Call[models.Rebuild]:
    """`GET /collections/{collection_name}/rebuild`."""
    return Call("GET", _collection_path(name) + "/rebuild", json_decoder(models.Rebuild))


def metadata_values(name: str, field: str, *, limit: int | None, typed: bool) -> Call[models.MetadataValues]:
    """`GET /collections/{collection_name}/metadata-values`."""
    params = query_params(field=field, limit=limit, typed="true" if typed else None)
    path = _collection_path(name) + "/metadata-values"
    return Call("GET", path, json_decoder(models.MetadataValues), params=params)


# -- documents -----------------------------------------------------------------------------------


class EncodedDocument(msgspec.Struct, frozen=True):
    """A document of a request as JSON, with its id and its dimension."""

    body: bytes
    id: str | None
    dimension: int


def encode_document(document: NewDocumentLike, path: str = "$") -> EncodedDocument:
    """Encode one document of a request.

    Args:
        path: its path in the request, for errors.

    Returns:
        The document as a JSON object.

    Raises:
        InvalidInput: a field cannot be sent, or is not one of a document's; the text has its path and never a value.
    """
    if not isinstance(document, NewDocument):
        document = _to_document(document, path)
    metadata = document.metadata
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput(f"{path}.metadata: must be a mapping, not {type(metadata).__name__}")
    id_ = None if document.id is None else to_text(document.id, f"{path}.id")
    try:
        vector = encode_vector(document.embedding)
    except InvalidInput as error:
        raise InvalidInput(f"{path}.embedding: {error}") from None
    members = drop_none(
        id=id_,
        text=to_text(document.text, f"{path}.text"),
        embedding=vector,
        metadata=None if metadata is None else to_builtins(metadata, f"{path}.metadata"),
    )
    try:
        return EncodedDocument(encode(members), id_, dimension_of(vector))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _to_document(document: object, path: str) -> NewDocument:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{path}: must be a NewDocument or a mapping, not {type(document).__name__}")
    known = NewDocument.__struct_fields__
    if unknown := [key for key in document if key not in known]:
        raise InvalidInput(f"{path}: unknown field {unknown[0]!r}; a document has {', '.join(known)}")
    if missing := [key for key in ("text", "embedding") if document.get(key) is None]:
        raise InvalidInput(f"{path}.{missing[0]}: required")
    return NewDocument(**document)


def encode_documents(documents: Iterable[NewDocumentLike]) -> bytes:
    """Encode the body of a request that stores documents.

    Returns:
        A JSON object.

    Raises:
        InvalidInput: a document cannot be sent.
    """
    if isinstance(documents, str | bytes | Mapping | NewDocument):
        raise InvalidInput(f"documents must be a list of documents, not one {type(documents).__name__}")
    encoded = (encode_document(document, f"$.documents[{index}]") for index, document in enumerate(documents))
    return documents_body(each.body for each in encoded)


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
    collection: str,
    filter_: DocumentFilter,
    *,
    limit: int | None,
    offset: int | None,
    total: bool,
    after: str | None = None,
) -> Call[models.DocumentPage]:
    """`GET /collections/{c}/documents`, or `POST .../filter` when there is a filter."""
    path = _collection_path(collection) + "/documents"
    decode, accept = json_decoder(models.DocumentPage), None
    if filter_.include_embeddings:
        decode, accept = decode_documents, ACCEPT
    members = filter_.to_body()
    if members.keys() <= {"include", "exclude"}:
        params = query_params(
            limit=limit,
            offset=offset,
            include="embedding" if filter_.include_embeddings else None,
            exclude=None if filter_.include_texts else "text",
            total=None if total else "false",
            after=after,
        )
        return Call("GET", path, decode, params=params, accept=accept)
    body = encode(members | drop_none(limit=limit, offset=offset, after=after) | {"total": total})
    return Call("POST", path + "/filter", decode, body=body, accept=accept)


def get_document(collection: str, document_id: str, *, include_embeddings: bool) -> Call[models.Document]:
    """`GET /collections/{c}/documents/{id}`."""
    if document_id in (".", ".."):
        # Proxies and servers remove these segments from a path, even percent-encoded.
        filter_ = DocumentFilter(ids=[document_id], include_embeddings=include_embeddings)
        body = encode(filter_.to_body() | {"total": False})
        return Call("POST", _collection_path(collection) + "/documents/filter", _decode_only_document, body=body)
    path = f"{_collection_path(collection)}/documents/{path_segment(document_id)}"
    params = query_params(include="embedding" if include_embeddings else None)
    return Call("GET", path, json_decoder(models.Document), params=params)


def update_documents(
    collection: str, updates: Mapping[str, Metadata], *, replace: bool
) -> Call[models.DocumentsUpdated]:
    """`PATCH /collections/{c}/documents`."""
    if not isinstance(updates, Mapping):
        raise InvalidInput(f"updates must be a mapping of ids to metadata, not {type(updates).__name__}")
    documents = [
        {"id": to_text(id_, "an id"), "metadata": to_builtins(metadata, f"$.documents[{index}].metadata")}
        for index, (id_, metadata) in enumerate(updates.items())
    ]
    body = encode({"documents": documents, "mode": "replace" if replace else "merge"})
    return Call("PATCH", _collection_path(collection) + "/documents", json_decoder(models.DocumentsUpdated), body=body)


def delete_documents(collection: str, *, ids: Strings | None, where: Where | None) -> Call[models.DeleteResult]:
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
    body, path = encode(search.to_body() | filter_.to_body()), _collection_path(collection) + "/query"
    if filter_.include_embeddings:
        return Call("POST", path, decode_results, body=body, accept=ACCEPT)
    return Call("POST", path, json_decoder(models.QueryResults), body=body)


def query_collections(
    collections: str | Strings, search: SimilaritySearch, filter_: DocumentFilter
) -> Call[models.MultiQueryResults]:
    """`POST /query`."""
    members: dict[str, object]
    members = (
        {"collection": collections}
        if isinstance(collections, str)
        else {"collections": to_strings(collections, "collections")}
    )
    body = encode(members | search.to_body() | filter_.to_body())
    return Call("POST", "/query", json_decoder(models.MultiQueryResults), body=body)


def map_collection(
    collection: str, *, points: int, where: Where | None, color: str | None
) -> Call[models.CollectionMap]:
    """`POST /collections/{c}/map`."""
    body = encode(DocumentFilter(where=where).to_body() | drop_none(points=points, color=color))
    return Call("POST", _collection_path(collection) + "/map", json_decoder(models.CollectionMap), body=body)


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
    return f"/collections/{path_segment(name)}"
