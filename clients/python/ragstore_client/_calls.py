"""Every call of the contract, as a value: what to send, and how to read the answer.

Nothing here does I/O. `Client` and `AsyncClient` carry out the same calls, each in its own way.

A filter travels in a body, never in a URL: it holds metadata values, and URLs end up in logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

import msgspec

from ragstore_client import _models as models
from ragstore_client._answers import into, text
from ragstore_client._exceptions import InvalidInput, NotFound
from ragstore_client._json import encode, plain
from ragstore_client._vectors import to_base64

if TYPE_CHECKING:
    from ragstore_client._models import Distance, Embedding, Metadata, NewDocument, Where

T_co = TypeVar("T_co", covariant=True)

MOST_DOCUMENTS = 1000
"""Most documents that the service returns in one page."""


class Call(msgspec.Struct, Generic[T_co], frozen=True):
    """One call.

    Attributes:
        method: the HTTP method.
        path: the path below the base URL, percent-encoded.
        reader: reads a body into the answer.
        params: the query string.
        body: JSON to send.
        idempotent: whether doing it twice is the same as doing it once.
        accept: statuses beyond 2xx whose body is an answer too.
        when_gone: what a 404 means after an earlier try that may have done the work.
    """

    method: str
    path: str
    reader: Callable[[bytes], T_co]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    idempotent: bool = True
    accept: tuple[int, ...] = ()
    when_gone: T_co | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
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

    def words(self) -> dict[str, object]:
        """The filter as members of a request's body."""
        return _given(
            where=None if self.where is None else plain(self.where, "$.where"),
            where_document=None if self.where_document is None else plain(self.where_document, "$.where_document"),
            ids=None if self.ids is None else list(self.ids),
            include=["embedding"] if self.include_embeddings else None,
        )


class Nearness(msgspec.Struct, frozen=True, kw_only=True):
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

    def words(self) -> dict[str, object]:
        """The search as members of a request's body."""
        return _given(
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
    body = _given(
        name=name,
        metadata=None if metadata is None else plain(metadata, "$.metadata"),
        embedding_provider=embedding_provider,
        embedding_model=embedding_model,
        distance=distance,
        get_or_create=get_or_create or None,
    )
    reader = into(models.CollectionCreated)
    return Call("POST", "/collections", reader, body=encode(body), idempotent=get_or_create)


def list_collections(*, limit: int | None, offset: int | None) -> Call[models.CollectionPage]:
    """`GET /collections`."""
    return Call(
        "GET",
        "/collections",
        into(models.CollectionPage),
        params=_params(limit=limit, offset=offset),
    )


def get_collection(name: str) -> Call[models.Collection]:
    """`GET /collections/{collection_name}`."""
    return Call("GET", _collection(name), into(models.Collection))


def update_metadata(name: str, metadata: Metadata, *, merge: bool) -> Call[models.MetadataUpdated]:
    """`PUT /collections/{collection_name}/metadata`."""
    body = encode({"metadata": plain(metadata, "$.metadata")})
    params = _params(merge="true" if merge else None)
    return Call(
        "PUT",
        _collection(name) + "/metadata",
        into(models.MetadataUpdated),
        params=params,
        body=body,
    )


def delete_collection(name: str) -> Call[models.CollectionDeleted]:
    """`DELETE /collections/{collection_name}`."""
    gone = models.CollectionDeleted(status="deleted", name=name)
    return Call("DELETE", _collection(name), into(models.CollectionDeleted), when_gone=gone)


def metadata_values(name: str, field: str, *, limit: int | None) -> Call[models.MetadataValues]:
    """`GET /collections/{collection_name}/metadata-values`."""
    params = _params(field=field, limit=limit)
    return Call("GET", _collection(name) + "/metadata-values", into(models.MetadataValues), params=params)


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
        _given(
            id=document.id,
            text=document.text,
            embedding=to_base64(document.embedding),
            metadata=None if document.metadata is None else plain(document.metadata, "$.metadata"),
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


def add_documents(collection: str, body: bytes) -> Call[models.DocumentsWritten]:
    """`POST /collections/{c}/documents`."""
    path = _collection(collection) + "/documents"
    return Call("POST", path, into(models.DocumentsWritten), body=body, idempotent=False)


def upsert_documents(collection: str, body: bytes) -> Call[models.DocumentsWritten]:
    """`PUT /collections/{c}/documents`."""
    return Call("PUT", _collection(collection) + "/documents", into(models.DocumentsWritten), body=body)


def list_documents(
    collection: str, wanted: Filter, *, limit: int | None, offset: int | None, total: bool
) -> Call[models.DocumentPage]:
    """`GET /collections/{c}/documents`, or `POST .../filter` when there is something to filter by."""
    path, reader = _collection(collection) + "/documents", into(models.DocumentPage)
    words = wanted.words()
    if set(words) <= {"include"}:
        params = _params(
            limit=limit,
            offset=offset,
            include="embedding" if wanted.include_embeddings else None,
            total=None if total else "false",
        )
        return Call("GET", path, reader, params=params)
    body = encode(words | _given(limit=limit, offset=offset) | {"total": total})
    return Call("POST", path + "/filter", reader, body=body)


def get_document(collection: str, document_id: str) -> Call[models.Document]:
    """`GET /collections/{c}/documents/{id}`."""
    if document_id in (".", ".."):
        # Proxies and servers take these out of a path, encoded or not.
        body = encode({"ids": [document_id], "total": False})
        return Call("POST", _collection(collection) + "/documents/filter", _only_document, body=body)
    return Call("GET", f"{_collection(collection)}/documents/{_segment(document_id)}", into(models.Document))


def delete_documents(
    collection: str, *, ids: Sequence[str] | None, where: Where | None
) -> Call[models.DocumentsDeleted]:
    """`POST /collections/{c}/documents/delete`."""
    body = encode(Filter(ids=ids, where=where).words())
    return Call(
        "POST",
        _collection(collection) + "/documents/delete",
        into(models.DocumentsDeleted),
        body=body,
    )


def empty_collection(collection: str) -> Call[models.CollectionEmptied]:
    """`DELETE /collections/{c}/documents/all`."""
    return Call("DELETE", _collection(collection) + "/documents/all", into(models.CollectionEmptied))


# -- similarity ----------------------------------------------------------------------------------


def query(collection: str, nearness: Nearness, wanted: Filter) -> Call[models.QueryResults]:
    """`POST /collections/{c}/query`."""
    body = encode(nearness.words() | wanted.words())
    return Call("POST", _collection(collection) + "/query", into(models.QueryResults), body=body)


def query_collections(
    collections: str | Sequence[str], nearness: Nearness, wanted: Filter
) -> Call[models.MultiQueryResults]:
    """`POST /query`."""
    where: dict[str, object]
    where = {"collection": collections} if isinstance(collections, str) else {"collections": list(collections)}
    body = encode(where | nearness.words() | wanted.words())
    return Call("POST", "/query", into(models.MultiQueryResults), body=body)


# -- service -------------------------------------------------------------------------------------


def info() -> Call[models.ServiceInfo]:
    """`GET /`."""
    return Call("GET", "/", into(models.ServiceInfo))


def health() -> Call[models.Health]:
    """`GET /health`, whose 503 is an answer too."""
    return Call("GET", "/health", into(models.Health), accept=(503,))


def probe(name: str) -> Call[models.Probe]:
    """`GET /health/live` and `GET /health/ready`, whose 503 is an answer too."""
    return Call("GET", f"/health/{name}", into(models.Probe), accept=(503,))


def page(path: str) -> Call[str]:
    """`GET /metrics`, `GET /openapi.json` and `GET /docs`: texts for others to read."""
    return Call("GET", path, text)


# -- parts ---------------------------------------------------------------------------------------


def _only_document(body: bytes) -> models.Document:
    found = into(models.DocumentPage)(body).documents
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


def _given(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _params(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in values.items() if value is not None)
