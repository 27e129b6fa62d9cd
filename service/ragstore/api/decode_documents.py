"""Decoding of documents: from the bytes of a request to columns.

Each document is decoded by itself, and its embedding is written directly into the matrix. So the numbers of a large
request never exist as Python floats all together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias
from uuid import uuid4

import msgspec

from ragstore.api.schemas import NewDocument
from ragstore.errors import BatchTooLarge, InvalidDocuments, InvalidMetadata
from ragstore.kit.decoding import JSON, Decoder, decoded, decoders
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.time_slices import TimeSlices, run_whole
from ragstore.kit.value_count import MAX_VALUES, has_too_many_values
from ragstore.model.documents import Batch
from ragstore.model.large_bodies.full_collections import FULL_COLLECTIONS
from ragstore.model.large_bodies.large_documents import LARGE_BYTES, LargeDocument, decode_large
from ragstore.model.large_bodies.packed_metadata import PackedMetadata
from ragstore.model.large_bodies.releasable_bytes import ReleasableBytes
from ragstore.model.large_bodies.split_documents import MAX_DOCUMENT_BYTES, missing_documents, split_documents
from ragstore.model.metadata import MAX_REQUEST_VALUES, count_values, validate_document_metadata
from ragstore.model.received_documents import WITHOUT_EMBEDDING, Fault, ReceivedDocuments, embedding_path
from ragstore.model.vectors import NOT_NUMBERS, parse_embedding

SMALL_BYTES: Final = 128 * 1024
"""A body up to this size is split into documents in one step: it has at most 65,536, which take 4 MB and 4 ms."""

MAX_REQUEST_ID_CHARACTERS: Final = 4 * 1024 * 1024
"""Maximum number of characters in the ids of a request. Ids are kept, sent to Chroma and returned: 14 MiB of ids with
an emoji each took 100 MiB."""

FEW_DOCUMENTS: Final = 64
"""Number of documents of a small body that are decoded in one step."""

RawDocument: TypeAlias = msgspec.Raw | bytes | memoryview
"""A document that is not decoded yet."""


class _Envelope(msgspec.Struct):
    """A request body whose documents are not decoded yet."""

    documents: list[msgspec.Raw] | None = None


class _EmbeddingOnly(msgspec.Struct):
    """A document decoded only for its embedding."""

    embedding: msgspec.Raw | None = None


_ENVELOPE: Final = decoders(_Envelope)
_DOCUMENT: Final = decoders(NewDocument)
_EMBEDDING_ONLY: Final = decoders(_EmbeddingOnly)


class DocumentsBody(msgspec.Struct):
    """A body of documents that is not decoded yet.

    Attributes:
        content: its bytes; none after they were taken.
        format_: `JSON` or `MSGPACK`.
    """

    content: bytes
    format_: str

    def take(self) -> bytes:
        """Get the bytes, and keep no reference to them."""
        content, self.content = self.content, b""
        return content


class DocumentsDecoder:
    """Decodes documents. Large bodies are decoded in slices of time, in turns.

    Args:
        max_documents: maximum number of documents in a request.
    """

    def __init__(self, max_documents: int) -> None:
        self._max_documents = max_documents
        self._slices = TimeSlices()

    async def decode_body(self, body: DocumentsBody) -> ReceivedDocuments:
        """Decode the documents of a body, good and bad.

        Raises:
            BatchTooLarge: there are too many.
            InvalidDocuments: there are none.
            InvalidRequest: the body is no object with documents.
        """
        content, format_ = body.take(), body.format_
        size = len(content)
        if size <= SMALL_BYTES:
            documents: Sequence[RawDocument] = _small_envelope(content, format_)
            if len(documents) > self._max_documents:
                raise BatchTooLarge(self._max_documents, len(documents))
            steps = decode_documents(documents, size, format_)
            return run_whole(steps) if len(documents) <= FEW_DOCUMENTS else await self._slices.run(steps)
        held = ReleasableBytes(size)
        copying = held.fill(content)
        del content
        await self._slices.run(copying)
        views = await self._slices.run(split_documents(held.view, format_, self._max_documents))
        return await self._slices.run(decode_documents(views, size, format_, on_decoded=held.release))

    async def decode_lines(self, lines: Sequence[bytes], generate_id: Callable[[int], str]) -> ReceivedDocuments:
        """Decode the lines of a stream's batch, good and bad.

        Args:
            lines: one or more lines.
            generate_id: generates the id of a document without one, from its index.
        """
        size = sum(map(len, lines))
        steps = decode_documents(lines, size, JSON, generate_id, subject="line", may_repeat=True)
        is_short = size <= SMALL_BYTES and len(lines) <= FEW_DOCUMENTS
        return run_whole(steps) if is_short else await self._slices.run(steps)

    def decoding(self, body: DocumentsBody) -> AbstractContextManager[None]:
        """Pause full collections of garbage while a large body, and what was decoded of it, are in memory."""
        return nullcontext() if len(body.content) <= SMALL_BYTES else FULL_COLLECTIONS.paused()

    async def release(self, batch: Batch) -> None:
        """Free the metadata of a batch that was written, in slices: all of it takes 30 ms for 490,000 values."""
        if isinstance(batch.metadatas, list):
            await self._slices.run(_emptied(batch.metadatas))


def decode_documents(
    documents: Sequence[RawDocument],
    size: int,
    format_: str,
    generate_id: Callable[[int], str] | None = None,
    subject: str = "body",
    *,
    may_repeat: bool = False,
    on_decoded: Callable[[int], object] | None = None,
) -> Generator[None, None, ReceivedDocuments]:
    """Decode documents one by one.

    Args:
        documents: one or more documents.
        size: their size in bytes, or more.
        format_: `JSON` or `MSGPACK`.
        generate_id: generates the id of a document without one, from its index; None for random UUIDs.
        subject: what contains a document, for error messages.
        may_repeat: whether several documents may have one id.
        on_decoded: called after each document, with the size of all that are decoded, in bytes. They are not read
            again, so their memory can be released: embeddings and texts that take four times their bytes are then
            never in memory beside the whole body.

    Yields:
        After each document, and within large ones.

    Returns:
        The documents, good and bad.

    Raises:
        BatchTooLarge: they have too many metadata values, or too long ids, together.
    """
    received = ReceivedDocuments(len(documents), size, may_repeat=may_repeat, is_packed=size > SMALL_BYTES)
    value_count = id_characters = decoded_bytes = 0
    for index, raw in enumerate(documents):
        try:
            document = yield from _decode(raw, format_, subject)
        except InvalidRequest as error:
            received.reject(_fault_of_fields(error, raw, index, format_))
        else:
            value_count += _receive(received, document, index, generate_id)
            id_characters += len(document.id or "")
        if not may_repeat:  # a batch of a stream is small
            if value_count > MAX_REQUEST_VALUES:
                raise BatchTooLarge.together(MAX_REQUEST_VALUES, "metadata values")
            if id_characters > MAX_REQUEST_ID_CHARACTERS:
                raise BatchTooLarge.together(MAX_REQUEST_ID_CHARACTERS, "characters in their ids")
        if on_decoded:
            decoded_bytes += len(memoryview(raw))
            on_decoded(decoded_bytes)
        yield
    return received


def _emptied(metadatas: list[PackedMetadata]) -> Generator[None, None, None]:
    while metadatas:
        metadatas.pop()
        yield


def _small_envelope(content: bytes, format_: str) -> list[msgspec.Raw]:
    try:
        documents = decoded(_ENVELOPE[format_], content, format_).documents
    except InvalidRequest as error:
        if any(field.path == "$.documents" for field in error.field_errors):
            raise missing_documents() from None
        raise
    if not documents:
        raise missing_documents()
    return documents


def _decode(raw: RawDocument, format_: str, subject: str) -> Generator[None, None, NewDocument | LargeDocument]:
    """Decode a document, after a check of its size. Yields within a large one."""
    size = len(memoryview(raw))
    if size > MAX_VALUES:
        if size > MAX_DOCUMENT_BYTES:
            raise InvalidRequest(f"A document must not be larger than {MAX_DOCUMENT_BYTES} bytes")
        if has_too_many_values(bytes(raw), format_):
            raise InvalidRequest(f"A document must not have more than {MAX_VALUES} values")
    if size > LARGE_BYTES:
        yield
        large = yield from decode_large(memoryview(raw), format_, subject)
        yield
        if large:
            return large
    decoder: Decoder[NewDocument] = _DOCUMENT[format_]
    return decoded(decoder, raw, format_, subject)


def _receive(
    received: ReceivedDocuments,
    document: NewDocument | LargeDocument,
    index: int,
    generate_id: Callable[[int], str] | None,
) -> int:
    """Add a decoded document, or its fault.

    Returns:
        Number of metadata values that were added.
    """
    try:
        embedding = parse_embedding(document.embedding, embedding_path(index))
        metadata = validate_document_metadata(document.metadata, f"$.documents[{index}].metadata")
    except (InvalidDocuments, InvalidMetadata) as error:
        field = error.field_errors[0]
        received.reject(Fault(field.path, field.message, type(error)))
        return 0
    if document.id or generate_id:
        document_id = document.id or (generate_id(index) if generate_id else "")
        received.add(document_id, document.text, metadata, embedding)
    else:
        received.add(str(uuid4()), document.text, metadata, embedding, has_unique_id=True)
    return count_values(metadata)


def _fault_of_fields(error: InvalidRequest, raw: RawDocument, index: int, format_: str) -> Fault:
    """The fault of a document that does not have the fields of one.

    A missing embedding takes precedence: it is the most frequent mistake, and the contract defines a message for it.
    """
    if not error.field_errors:  # too large, or malformed
        return Fault(f"$.documents[{index}]", error.detail, InvalidDocuments)
    if _lacks_embedding(raw, format_):
        return Fault(embedding_path(index), WITHOUT_EMBEDDING, InvalidDocuments)
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
