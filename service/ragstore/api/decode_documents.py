"""Documents on their way in: from the bytes of a request to one columnar batch.

Each document is decoded by itself and its embedding goes straight into the matrix, so that the numbers of a large
request are never all Python floats at once.
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
from ragstore.kit.errors import FieldProblem, InvalidRequest, JsonPath
from ragstore.model.documents import Batch
from ragstore.model.metadata import Metadata, checked_document_metadata
from ragstore.model.vectors import NOT_NUMBERS, Matrix, parse_embedding

REQUIRED: Final = "Documents array is required"
WITHOUT_EMBEDDING: Final = "All documents must include pre-computed embeddings"

Undecoded: TypeAlias = msgspec.Raw | bytes
"""A document as it came."""


class _EmbeddingOnly(msgspec.Struct):
    """A document looked at for its embedding alone."""

    embedding: msgspec.Raw | None = None


_DOCUMENT: Final = decoders(NewDocument)
_EMBEDDING_ONLY: Final = decoders(_EmbeddingOnly)


def decode_batch(
    documents: Sequence[Undecoded],
    format_: str,
    made_id: Callable[[int], str] = lambda _: str(uuid4()),
    subject: str = "body",
) -> Batch:
    """Decode documents one by one into a batch.

    Args:
        documents: one or more undecoded documents.
        format_: `JSON` or `MSGPACK`.
        made_id: makes the id of a document without one, by its index.
        subject: what holds a document, for the errors' texts.

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
    for place, document in enumerate(_decoded_documents(documents, format_, subject)):
        rows.append(document.embedding)
        ids.append(document.id or made_id(place))
        texts.append(document.text)
        metadatas.append(checked_document_metadata(document.metadata, f"$.documents[{place}].metadata"))
    return Batch(ids, texts, metadatas, rows.matrix())


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
        row = parse_embedding(given, path)
        if self._filled == 0:
            self._matrix = np.empty((self._count, len(row)), dtype=np.float32)
        if len(row) != self._matrix.shape[1]:
            first = JsonPath("$.documents[0].embedding")
            columns = self._matrix.shape[1]
            detail = ("Embedding dimensions differ: ", first, f" has {columns}, ", JsonPath(path), f" has {len(row)}")
            raise DimensionMismatch(detail, [FieldProblem(path, "".join(detail))])
        self._matrix[self._filled] = row
        self._filled += 1

    def matrix(self) -> Matrix:
        """All of them."""
        return self._matrix


def _decoded_documents(documents: Sequence[Undecoded], format_: str, subject: str) -> Iterator[NewDocument]:
    decoder: Decoder[NewDocument] = _DOCUMENT[format_]
    for place, raw in enumerate(documents):
        try:
            yield decoded(decoder, raw, format_, subject)
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
    return InvalidDocuments((message, ": ", JsonPath(path)), problems)


def _lacks_embedding(raw: Undecoded, format_: str) -> bool:
    try:
        embedding = decoded(_EMBEDDING_ONLY[format_], raw, format_).embedding
    except InvalidRequest:
        return False  # not even an object; blamed for that
    return embedding is None or bytes(embedding) in (b"null", b"\xc0")


def check_ids(ids: list[str]) -> None:
    """Refuse a request in which an id is repeated.

    Raises:
        InvalidDocuments: names the second document of an id.
    """
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    for place, document_id in enumerate(ids):
        if document_id in seen:
            raise InvalidDocuments.at(f"$.documents[{place}].id", f"Duplicate id '{document_id}' in the request")
        seen.add(document_id)
