"""Decoding of documents: from the bytes of a request to columns.

Each document is decoded by itself, and its embedding is written directly into the matrix. So the numbers of a large
request never exist as Python floats all together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from uuid import uuid4

import msgspec

from ragstore.api.schemas import NewDocument
from ragstore.errors import InvalidDocuments, InvalidMetadata
from ragstore.kit.decoding import Decoder, decoded, decoders
from ragstore.kit.errors import InvalidRequest
from ragstore.model.metadata import Metadata, validate_document_metadata
from ragstore.model.received_documents import WITHOUT_EMBEDDING, Fault, ReceivedDocuments, embedding_path
from ragstore.model.vectors import NOT_NUMBERS, Vector, parse_embedding

REQUIRED: Final = "Documents array is required"

RawDocument: TypeAlias = msgspec.Raw | bytes
"""A document that is not decoded yet."""


class _EmbeddingOnly(msgspec.Struct):
    """A document decoded only for its embedding."""

    embedding: msgspec.Raw | None = None


_DOCUMENT: Final = decoders(NewDocument)
_EMBEDDING_ONLY: Final = decoders(_EmbeddingOnly)


def decode_documents(
    documents: Sequence[RawDocument],
    format_: str,
    generate_id: Callable[[int], str] = lambda _: str(uuid4()),
    subject: str = "body",
    *,
    may_repeat: bool = False,
) -> ReceivedDocuments:
    """Decode documents one by one.

    Args:
        documents: one or more documents.
        format_: `JSON` or `MSGPACK`.
        generate_id: generates the id of a document without one, from its index.
        subject: what contains a document, for error messages.
        may_repeat: whether several documents may have one id.

    Returns:
        The documents, good and bad.
    """
    decoder: Decoder[NewDocument] = _DOCUMENT[format_]
    received = ReceivedDocuments(len(documents), sum(map(_size, documents)), may_repeat=may_repeat)
    for index, raw in enumerate(documents):
        try:
            document = decoded(decoder, raw, format_, subject)
        except InvalidRequest as error:
            received.reject(_fault_of_fields(error, raw, index, format_))
            continue
        try:
            embedding, metadata = _validated(document, index)
        except (InvalidDocuments, InvalidMetadata) as error:
            field = error.field_errors[0]
            received.reject(Fault(field.path, field.message, type(error)))
            continue
        received.add(document.id or generate_id(index), document.text, metadata, embedding)
    return received


def _size(raw: RawDocument) -> int:
    return len(memoryview(raw))


def _validated(document: NewDocument, index: int) -> tuple[Vector, Metadata]:
    embedding = parse_embedding(document.embedding, embedding_path(index))
    return embedding, validate_document_metadata(document.metadata, f"$.documents[{index}].metadata")


def _fault_of_fields(error: InvalidRequest, raw: RawDocument, index: int, format_: str) -> Fault:
    """The fault of a document that does not have the fields of one.

    A missing embedding takes precedence: it is the most frequent mistake, and the contract defines a message for it.
    """
    if _lacks_embedding(raw, format_):
        return Fault(embedding_path(index), WITHOUT_EMBEDDING, InvalidDocuments)
    if not error.field_errors:
        return Fault(f"$.documents[{index}]", error.detail, InvalidDocuments)
    field = error.field_errors[0]
    path = f"$.documents[{index}]{field.path.removeprefix('$')}"
    is_embedding = path.startswith(embedding_path(index))
    return Fault(path, NOT_NUMBERS if is_embedding else field.message, InvalidDocuments)


def _lacks_embedding(raw: RawDocument, format_: str) -> bool:
    try:
        embedding = decoded(_EMBEDDING_ONLY[format_], raw, format_).embedding
    except InvalidRequest:
        return False  # not an object, which is reported as its own error
    return embedding is None or bytes(embedding) in (b"null", b"\xc0")
