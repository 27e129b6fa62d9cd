"""Decoding of documents: from the bytes of a request to one columnar batch.

Each document is decoded by itself, and its embedding is written directly into the matrix. So the numbers of a large
request never exist as Python floats all together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np

from ragstore.api.schemas import NewDocument
from ragstore.errors import DimensionMismatch, InvalidDocuments
from ragstore.kit.decoding import Decoder, decoded, decoders
from ragstore.kit.errors import FieldError, InvalidRequest, JsonPath
from ragstore.model.documents import Batch
from ragstore.model.metadata import Metadata, validate_document_metadata
from ragstore.model.vectors import NOT_NUMBERS, Matrix, parse_embedding

REQUIRED: Final = "Documents array is required"
WITHOUT_EMBEDDING: Final = "All documents must include pre-computed embeddings"

RawDocument: TypeAlias = msgspec.Raw | bytes
"""A document that is not decoded yet."""


class _EmbeddingOnly(msgspec.Struct):
    """A document decoded only for its embedding."""

    embedding: msgspec.Raw | None = None


_DOCUMENT: Final = decoders(NewDocument)
_EMBEDDING_ONLY: Final = decoders(_EmbeddingOnly)


def decode_batch(
    documents: Sequence[RawDocument],
    format_: str,
    generate_id: Callable[[int], str] = lambda _: str(uuid4()),
    subject: str = "body",
) -> Batch:
    """Decode documents one by one into a batch.

    Args:
        documents: one or more documents.
        format_: `JSON` or `MSGPACK`.
        generate_id: generates the id of a document without one, from its index.
        subject: what contains a document, for error messages.

    Returns:
        The batch. Its ids may repeat.

    Raises:
        InvalidDocuments: a document is invalid.
        InvalidMetadata: a document's metadata is invalid.
        DimensionMismatch: the embeddings have different dimensions.
    """
    ids: list[str] = []
    texts: list[str] = []
    metadatas: list[Metadata] = []
    embeddings = _MatrixBuilder(len(documents))
    for index, document in enumerate(_decoded_documents(documents, format_, subject)):
        embeddings.append(document.embedding)
        ids.append(document.id or generate_id(index))
        texts.append(document.text)
        metadatas.append(validate_document_metadata(document.metadata, f"$.documents[{index}].metadata"))
    return Batch(ids, texts, metadatas, embeddings.matrix())


class _MatrixBuilder:
    """Builds the matrix of a batch's embeddings.

    Args:
        row_count: number of embeddings to come.
    """

    def __init__(self, row_count: int) -> None:
        self._row_count = row_count
        self._filled = 0
        self._matrix: Matrix = np.empty((0, 0), dtype=np.float32)

    def append(self, embedding: list[float] | bytes) -> None:
        """Add the next embedding.

        Raises:
            InvalidDocuments: it is invalid.
            DimensionMismatch: its dimension differs from that of the first one.
        """
        path = f"$.documents[{self._filled}].embedding"
        row = parse_embedding(embedding, path)
        if self._filled == 0:
            self._matrix = np.empty((self._row_count, len(row)), dtype=np.float32)
        if len(row) != self._matrix.shape[1]:
            first = JsonPath("$.documents[0].embedding")
            columns = self._matrix.shape[1]
            detail = ("Embedding dimensions differ: ", first, f" has {columns}, ", JsonPath(path), f" has {len(row)}")
            raise DimensionMismatch(detail, [FieldError(path, "".join(detail))])
        self._matrix[self._filled] = row
        self._filled += 1

    def matrix(self) -> Matrix:
        """The matrix of all embeddings."""
        return self._matrix


def _decoded_documents(documents: Sequence[RawDocument], format_: str, subject: str) -> Iterator[NewDocument]:
    decoder: Decoder[NewDocument] = _DOCUMENT[format_]
    for index, raw in enumerate(documents):
        try:
            yield decoded(decoder, raw, format_, subject)
        except InvalidRequest as error:
            raise _invalid_documents(error, documents, index, format_) from None


def _invalid_documents(
    error: InvalidRequest, documents: Sequence[RawDocument], index: int, format_: str
) -> InvalidDocuments:
    """The error of the whole request, from the error of one document.

    A missing embedding in any document takes precedence: it is the most frequent mistake, and the contract defines a
    message for it.
    """
    missing = [
        FieldError(f"$.documents[{position}].embedding", WITHOUT_EMBEDDING)
        for position, raw in enumerate(documents)
        if _lacks_embedding(raw, format_)
    ]
    if missing:
        return InvalidDocuments(WITHOUT_EMBEDDING, missing)
    field_errors = [
        FieldError(f"$.documents[{index}]{field.path.removeprefix('$')}", field.message) for field in error.field_errors
    ]
    if not field_errors:
        return InvalidDocuments(error.detail, [FieldError(f"$.documents[{index}]", error.detail)])
    path, message = field_errors[0].path, field_errors[0].message
    if path.startswith(f"$.documents[{index}].embedding"):
        return InvalidDocuments.at(path, NOT_NUMBERS)
    return InvalidDocuments((message, ": ", JsonPath(path)), field_errors)


def _lacks_embedding(raw: RawDocument, format_: str) -> bool:
    try:
        embedding = decoded(_EMBEDDING_ONLY[format_], raw, format_).embedding
    except InvalidRequest:
        return False  # not an object, which is reported as its own error
    return embedding is None or bytes(embedding) in (b"null", b"\xc0")


def validate_distinct_ids(ids: list[str]) -> None:
    """Reject a request that repeats an id.

    Raises:
        InvalidDocuments: an id repeats; the error has the path of the second document.
    """
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    for index, document_id in enumerate(ids):
        if document_id in seen:
            raise InvalidDocuments.at(f"$.documents[{index}].id", f"Duplicate id '{document_id}' in the request")
        seen.add(document_id)
