"""Documents on their way in: from the bytes of a request to one columnar batch.

Each document is decoded by itself and its embedding goes straight into the matrix, so that the numbers of a large
request are never all Python floats at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np

from ragstore.errors import DimensionMismatch, FieldProblem, InvalidDocuments, InvalidRequest
from ragstore.metadata import Metadata, checked_document_metadata
from ragstore.negotiation import Decoded, Decoder, decoded, decoders
from ragstore.schemas import DocumentBody, DocumentsBody
from ragstore.store.base import Batch, Matrix, Vector

REQUIRED: Final = "Documents array is required"
WITHOUT_EMBEDDING: Final = "All documents must include pre-computed embeddings"
NOT_NUMBERS: Final = "Embedding must be an array of numbers"

MAX_DIMENSION: Final = 65_536
"""Numbers in an embedding. Chroma allocates memory for 100 embeddings with the first one of a collection. Where that
fails, so do all writes and reads of the collection: with 8 GiB, after one document of 6.3 million numbers (measured
with 1.5.9)."""

Undecoded: TypeAlias = msgspec.Raw | bytes
"""A document as it came."""


class _Envelope(msgspec.Struct):
    """A request whose documents are left undecoded."""

    documents: list[msgspec.Raw] | None = None


class _EmbeddingOnly(msgspec.Struct):
    """A document looked at for its embedding alone."""

    embedding: msgspec.Raw | None = None


_ENVELOPE: Final = decoders(_Envelope)
_DOCUMENT: Final = decoders(DocumentBody)
_EMBEDDING_ONLY: Final = decoders(_EmbeddingOnly)


class BatchDTO(Decoded[DocumentsBody]):
    """The DTO of a handler that takes `data: Batch`."""

    def decode(self, value: bytes, format_: str) -> Batch:
        """Decode documents into a batch.

        Args:
            value: the body.
            format_: `JSON` or `MSGPACK`.

        Returns:
            The batch.

        Raises:
            InvalidDocuments: something is wrong with the documents; it says what and where.
            InvalidMetadata: something is wrong with a document's metadata.
            DimensionMismatch: the embeddings are of different dimensions.
        """
        documents = self._envelope(value, format_).documents
        if not documents:
            raise InvalidDocuments(REQUIRED, [FieldProblem("$.documents", REQUIRED)])
        batch = batch_of(documents, format_)
        _check_ids(batch.ids)
        return batch

    @staticmethod
    def _envelope(value: bytes, format_: str) -> _Envelope:
        try:
            return decoded(_ENVELOPE[format_], value, format_)
        except InvalidRequest as error:
            if any(problem.path == "$.documents" for problem in error.problems):
                raise InvalidDocuments(REQUIRED, [FieldProblem("$.documents", REQUIRED)]) from None
            raise


def batch_of(
    documents: Sequence[Undecoded], format_: str, made_id: Callable[[int], str] = lambda _: str(uuid4())
) -> Batch:
    """Decode documents one by one into a batch.

    Args:
        documents: one or more undecoded documents.
        format_: `JSON` or `MSGPACK`.
        made_id: makes the id of a document without one, by its place.

    Returns:
        The batch, whose ids may still repeat; documents without an id have got one.

    Raises:
        InvalidDocuments: something is wrong with the documents.
        InvalidMetadata: something is wrong with a document's metadata.
        DimensionMismatch: the embeddings are of different dimensions.
    """
    ids: list[str] = []
    texts: list[str] = []
    metadatas: list[Metadata] = []
    rows = _Rows(len(documents))
    for place, document in enumerate(_decoded_documents(documents, format_)):
        rows.append(document.embedding)
        ids.append(document.id or made_id(place))
        texts.append(document.text)
        metadatas.append(checked_document_metadata(document.metadata, f"$.documents[{place}].metadata"))
    return Batch(ids, texts, metadatas, rows.matrix())


def without_repeats(batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Parts of a batch that say the same when they are written one after the other.

    Args:
        batch: a batch whose ids may repeat.

    Yields:
        The place where each part begins and the part, in which no two ids are alike.
    """
    first = 0
    seen: set[str] = set()
    for place, document_id in enumerate(batch.ids):
        if document_id in seen:
            yield first, _part(batch, first, place)
            first = place
            seen.clear()
        seen.add(document_id)
    yield first, _part(batch, first, len(batch))


def _part(batch: Batch, first: int, end: int) -> Batch:
    if end - first == len(batch):
        return batch
    part = slice(first, end)
    return Batch(batch.ids[part], batch.texts[part], batch.metadatas[part], batch.embeddings[part])


class _Rows:
    """Embeddings, one below the other.

    Args:
        count: how many there will be.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._filled = 0
        self._matrix: Matrix = np.empty((0, 0), dtype=np.float32)

    def append(self, given: list[float] | bytes) -> None:
        """Add the next embedding."""
        path = f"$.documents[{self._filled}].embedding"
        row = checked_embedding(given, path)
        if self._filled == 0:
            self._matrix = np.empty((self._count, len(row)), dtype=np.float32)
        if len(row) != self._matrix.shape[1]:
            message = (
                f"Embedding dimensions differ: $.documents[0].embedding has {self._matrix.shape[1]}, "
                f"{path} has {len(row)}"
            )
            raise DimensionMismatch(message, [FieldProblem(path, message)])
        self._matrix[self._filled] = row
        self._filled += 1

    def matrix(self) -> Matrix:
        """All of them."""
        return self._matrix


def checked_embedding(given: list[float] | bytes, path: str) -> Vector:
    """An embedding as sent, as a vector.

    Args:
        given: numbers, or the bytes of little-endian float32.
        path: its JSON path, for errors.

    Returns:
        Vector of shape (dimension,), float32, finite.

    Raises:
        InvalidDocuments: it is empty, too long, not whole numbers of float32, or not finite as float32.
    """
    if not given:
        raise InvalidDocuments.at(path, f"{NOT_NUMBERS} and must not be empty")
    if isinstance(given, bytes):
        if len(given) % 4:
            raise InvalidDocuments.at(path, f"{NOT_NUMBERS}; its bytes are not little-endian float32")
        vector: Vector = np.frombuffer(given, dtype="<f4").astype(np.float32, copy=False)
    else:
        vector = _float32(given)
    if len(vector) > MAX_DIMENSION:
        raise InvalidDocuments.at(path, f"An embedding has at most {MAX_DIMENSION} numbers; this one has {len(vector)}")
    finite = np.isfinite(vector)
    if not finite.all():
        place = int(np.argmin(finite))
        raise InvalidDocuments.at(f"{path}[{place}]", f"{NOT_NUMBERS} that are finite as float32")
    return vector


def _float32(numbers: list[float]) -> Vector:
    """Numbers as float32; those beyond its range are infinite.

    Struct takes a third of numpy's time for it (768 numbers: 9 and 30 µs), but stops at a number beyond the range.
    """
    try:
        return np.frombuffer(struct.pack(f"{len(numbers)}f", *numbers), dtype=np.float32)
    except OverflowError:
        with np.errstate(over="ignore"):
            return np.array(numbers, dtype=np.float32)


def _decoded_documents(documents: Sequence[Undecoded], format_: str) -> Iterator[DocumentBody]:
    decoder: Decoder[DocumentBody] = _DOCUMENT[format_]
    for place, raw in enumerate(documents):
        try:
            yield decoded(decoder, raw, format_)
        except InvalidRequest as error:
            raise _blamed(error, documents, place, format_) from None


def _blamed(error: InvalidRequest, documents: Sequence[Undecoded], place: int, format_: str) -> InvalidDocuments:
    """The error of one document, told for the whole request.

    A missing embedding anywhere comes first: it is what callers most often get wrong, and the contract gives it a text.
    """
    missing = [
        FieldProblem(f"$.documents[{position}].embedding", WITHOUT_EMBEDDING)
        for position, raw in enumerate(documents)
        if _lacks_embedding(raw, format_)
    ]
    if missing:
        return InvalidDocuments(WITHOUT_EMBEDDING, missing)
    problems = [
        FieldProblem(f"$.documents[{place}]{problem.path.removeprefix('$')}", problem.message)
        for problem in error.problems
    ]
    if not problems:
        return InvalidDocuments(error.detail, [FieldProblem(f"$.documents[{place}]", error.detail)])
    path, message = problems[0].path, problems[0].message
    if path.startswith(f"$.documents[{place}].embedding"):
        return InvalidDocuments.at(path, NOT_NUMBERS)
    return InvalidDocuments(f"{message}: {path}", problems)


def _lacks_embedding(raw: Undecoded, format_: str) -> bool:
    try:
        embedding = decoded(_EMBEDDING_ONLY[format_], raw, format_).embedding
    except InvalidRequest:
        return False  # not even an object; blamed for that
    return embedding is None or bytes(embedding) in (b"null", b"\xc0")


def _check_ids(ids: list[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    for place, document_id in enumerate(ids):
        if document_id in seen:
            raise InvalidDocuments.at(f"$.documents[{place}].id", f"Duplicate id '{document_id}' in the request")
        seen.add(document_id)
