"""Calls of the gateway's HTTP contract, as values: what to send, and how to decode the response. Nothing here does I/O.

Questions and filters are sent in a body, never in a URL: URLs are logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeAlias, TypeVar

import msgspec

from ragstore_client._call import Call, path_segment, query_params
from ragstore_client._exceptions import InvalidInput
from ragstore_client._json import drop_none, encode, to_builtins, to_strings, to_text
from ragstore_client._responses import json_decoder
from ragstore_client._types import Metadata, Where
from ragstore_client.gateway import _models as models
from ragstore_client.gateway._configurations import Assistant, Descriptor, KnowledgeBase, Stored, VersionList
from ragstore_client.gateway._questions import QuestionSet

T = TypeVar("T")
ConfigurationT = TypeVar("ConfigurationT", KnowledgeBase, Assistant, QuestionSet)

NDJSON = "application/x-ndjson"
MAX_STATES = 100
"""Maximum number of ingestions whose states one call returns."""

MAX_PAGE_SIZE = 1000
"""Maximum number of items that the gateway returns in one page."""

BaseLike: TypeAlias = str | Stored[KnowledgeBase] | Descriptor
"""A knowledge base: its id, or what `bases.find`, `bases.create` or `bases.iter` return."""


def id_of(configuration: str | Stored[ConfigurationT] | Descriptor) -> str:
    """The id of a configuration."""
    return configuration if isinstance(configuration, str) else configuration.id


# -- configurations ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind(Generic[ConfigurationT]):
    """A kind of configuration.

    Attributes:
        path: the path of its calls.
        body: its struct.
    """

    path: str
    body: type[ConfigurationT]


BASES = Kind("/ragstore/rags", KnowledgeBase)
ASSISTANTS = Kind("/ragstore/assistants", Assistant)
QUESTION_SETS = Kind("/ragstore/questions", QuestionSet)


def list_descriptors(
    kind: Kind[ConfigurationT], *, part: str, index: int | None, limit: int | None
) -> Call[list[Descriptor]]:
    """`GET …/descriptors`."""
    params = query_params(filter=part or None, index=index, limit=limit)
    return Call("GET", f"{kind.path}/descriptors", json_decoder(list[Descriptor]), params=params)


def get_configuration(kind: Kind[ConfigurationT], id: str, *, version: int | None) -> Call[Stored[ConfigurationT]]:
    """`GET …/{id}`."""
    return _stored(kind, "GET", f"/{path_segment(id)}", params=query_params(version=version))


def create_configuration(kind: Kind[ConfigurationT], fields: Mapping[str, object]) -> Call[Stored[ConfigurationT]]:
    """`POST …`."""
    return _stored(kind, "POST", "", body=encode(fields))


def update_configuration(
    kind: Kind[ConfigurationT], id: str, fields: Mapping[str, object], *, version: int
) -> Call[Stored[ConfigurationT]]:
    """`PUT …/{id}`."""
    return _stored(kind, "PUT", f"/{path_segment(id)}", params=query_params(version=version), body=encode(fields))


def duplicate_configuration(
    kind: Kind[ConfigurationT], id: str, *, version: int | None, documents: bool
) -> Call[Stored[ConfigurationT]]:
    """`POST …/{id}`."""
    params = query_params(version=version, documents="true" if documents else None)
    return _stored(kind, "POST", f"/{path_segment(id)}", params=params)


def delete_configuration(kind: Kind[ConfigurationT], id: str, *, version: int | None, permanent: bool) -> Call[bool]:
    """`DELETE …/{id}`."""
    params = query_params(version=version, permanent="true" if permanent else None)
    return _delete(f"{kind.path}/{path_segment(id)}", params)


def list_versions(kind: Kind[ConfigurationT], id: str, *, index: int | None, limit: int | None) -> Call[VersionList]:
    """`GET …/{id}/versions`."""
    params = query_params(index=index, limit=limit)
    return Call("GET", f"{kind.path}/{path_segment(id)}/versions", json_decoder(VersionList), params=params)


def fields_of(configuration: KnowledgeBase | Assistant | QuestionSet | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that are given, as JSON."""
    if isinstance(configuration, Mapping):
        fields = to_builtins(configuration)
    elif isinstance(configuration, KnowledgeBase | Assistant | QuestionSet):
        fields = to_builtins(msgspec.to_builtins(configuration))
    else:
        raise InvalidInput(f"a configuration is a struct or a mapping, not {type(configuration).__name__}")
    assert isinstance(fields, dict)  # noqa: S101  # of a mapping or a struct
    return fields


# -- documents -----------------------------------------------------------------------------------


class BatchDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A document of a request with several."""

    document_name: str
    content_type: str
    content: bytes
    metadata: Metadata = {}


def list_documents(
    base: str, *, part: str, status: models.DocumentStatus | None, index: int | None, limit: int | None
) -> Call[models.DocumentList]:
    """`GET /ragstore/rags/{id}/documents`."""
    params = query_params(filter=part or None, status=status, index=index, limit=limit)
    return Call("GET", f"{_base(base)}/documents", json_decoder(models.DocumentList), params=params)


def get_document(base: str, name: str) -> Call[models.DocumentEntry]:
    """`GET /ragstore/rags/{id}/documents/{name}`."""
    return Call("GET", f"{_base(base)}/documents/{_document(name)}", json_decoder(models.DocumentEntry))


def document_text(base: str, name: str) -> Call[models.DocumentText]:
    """`GET /ragstore/rags/{id}/texts/{name}`."""
    return Call("GET", f"{_base(base)}/texts/{_document(name)}", json_decoder(models.DocumentText))


def delete_document(base: str, name: str) -> Call[bool]:
    """`DELETE /ragstore/rags/{id}/documents/{name}`."""
    return _delete(f"{_base(base)}/documents/{_document(name)}")


def ingest_document(
    base: str, name: str, content: bytes | IO[bytes], media_type: str, metadata: Metadata
) -> Call[models.AcceptedIngestion]:
    """`POST /ragstore/rags/{id}/ingest`."""
    given = encode(to_builtins(metadata, "$.metadata")).decode() if metadata else None
    params = query_params(documentName=to_text(name, "name"), metadata=given)
    decode = json_decoder(models.AcceptedIngestion)
    path = f"{_base(base)}/ingest"
    # Idempotent: content that the document has already is not embedded again.
    return Call("POST", path, decode, params=params, body=content, content_type=media_type)


def ingest_documents(base: str, documents: Iterable[BatchDocument]) -> Call[models.AcceptedBatch]:
    """`POST /ragstore/rags/{id}/ingest/batch`."""
    body = b"".join(encode(each) + b"\n" for each in documents)
    decode = json_decoder(models.AcceptedBatch)
    return Call("POST", f"{_base(base)}/ingest/batch", decode, body=body, content_type=NDJSON)


def ingestion_progress(base: str, ingestion_ids: Sequence[str]) -> Call[models.IngestionProgress]:
    """`GET /ragstore/rags/{id}/ingestions`."""
    params = tuple(("ingestionId", each) for each in to_strings(ingestion_ids, "ingestion_ids"))
    return Call("GET", f"{_base(base)}/ingestions", json_decoder(models.IngestionProgress), params=params)


def ingestion_status(base: str, ingestion_id: str) -> Call[models.IngestionStatus]:
    """`GET /ragstore/rags/{id}/ingestion/{ingestion_id}/status`."""
    path = f"{_base(base)}/ingestion/{path_segment(ingestion_id)}/status"
    return Call("GET", path, json_decoder(models.IngestionStatus))


def cancel_ingestion(base: str, ingestion_id: str) -> Call[bool]:
    """`DELETE /ragstore/rags/{id}/ingestion/{ingestion_id}`."""
    return _delete(f"{_base(base)}/ingestion/{path_segment(ingestion_id)}")


# -- search --------------------------------------------------------------------------------------


def search(
    base: str,
    question: str,
    *,
    max_results: int | None,
    min_score: float | None,
    where: Where | None,
    earlier: Iterable[str],
) -> Call[models.KnowledgeBaseHits]:
    """`POST /ragstore/rags/{id}/query`."""
    body = drop_none(
        query=to_text(question, "question"),
        maxResults=max_results,
        minScore=None if min_score is None else to_builtins(min_score, "$.minScore"),
        where=None if where is None else to_builtins(where, "$.where"),
        earlier=to_strings(earlier, "earlier") or None,
    )
    return Call("POST", f"{_base(base)}/query", json_decoder(models.KnowledgeBaseHits), body=encode(body))


def read_passage(base: str, passage_id: str) -> Call[str]:
    """`GET /ragstore/rags/{id}/passages/{passage_id}`."""
    return Call("GET", f"{_base(base)}/passages/{path_segment(passage_id)}", bytes.decode, accept="text/plain, */*")


# -- gateway -------------------------------------------------------------------------------------


def access() -> Call[models.Access]:
    """`GET /access`."""
    return Call("GET", "/access", json_decoder(models.Access))


def extract(url: str) -> Call[models.ExtractResponse]:
    """`POST /extract`, of one page, as Markdown."""
    body = encode({"urls": [to_text(url, "url")], "format": "markdown"})
    return Call("POST", "/extract", json_decoder(models.ExtractResponse), body=body)


def request(method: str, path: str, body: object, type_: type[T], *, idempotent: bool) -> Call[T]:
    """Any call with a JSON body, or without one."""
    content = None if body is None else encode(body)
    return Call(method, path, json_decoder(type_), body=content, idempotent=idempotent)


# -- shared --------------------------------------------------------------------------------------


def _base(id: str) -> str:
    return f"{BASES.path}/{path_segment(id)}"


def _document(name: str) -> str:
    """The name of a document as the rest of a path: its slashes separate segments."""
    return "/".join(path_segment(part) if part else "" for part in to_text(name, "name").split("/")) or path_segment("")


def _delete(path: str, params: tuple[tuple[str, str], ...] = ()) -> Call[bool]:
    return Call("DELETE", path, lambda _: True, params=params, result_if_gone=True)


def _stored(
    kind: Kind[ConfigurationT],
    method: str,
    path: str,
    *,
    params: tuple[tuple[str, str], ...] = (),
    body: bytes | None = None,
) -> Call[Stored[ConfigurationT]]:
    decode_configuration, decode_fields = json_decoder(kind.body), json_decoder(dict[str, Any])

    def decode(content: bytes) -> Stored[ConfigurationT]:
        return Stored("", 0, decode_configuration(content), decode_fields(content))

    def read_headers(stored: Stored[ConfigurationT], headers: Mapping[str, str]) -> Stored[ConfigurationT]:
        written = Descriptor(headers.get("x-resource-uri", ""), "")
        return Stored(written.id, written.version, stored.configuration, stored.fields)

    return Call(
        method,
        f"{kind.path}{path}",
        decode,
        params=params,
        body=body,
        idempotent=method == "GET",
        read_headers=read_headers,
    )
