"""Finds the documents of a body without decoding them, and without reading the body in one step.

msgspec reads a value of 8 MiB in 2 to 18 ms, and holds the interpreter's lock for it. So each step here reads one
value, of limited size. Where a value ends, msgspec reports by its error for the bytes that follow.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, NoReturn, TypeAlias

import msgspec

from ragstore.errors import BatchTooLarge, InvalidDocuments
from ragstore.kit.decoding import JSON, MSGPACK, Decoder, decoders
from ragstore.kit.errors import FieldError, InvalidRequest

REQUIRED: Final = "Documents array is required"

MAX_DOCUMENT_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a document in a request. The worst one of this size takes 20 ms to decode."""

MAX_FIELD_BYTES: Final = 1024 * 1024
"""Maximum size of an ignored field beside the documents of a large body."""

MAX_FIELDS: Final = 1000
"""Maximum number of fields of a large body."""

SPACE: Final = b" \t\r\n"

CUT_BYTES: Final = 16
"""Number of bytes at the end of a slice in which an error may come from the cut."""

Steps: TypeAlias = Generator[None, None, list[memoryview]]

_RAW: Final = decoders(msgspec.Raw)
_AFTER: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE: Final = re.compile(r"\(byte (\d+)\)")


class TooLong(Exception):
    """A value is larger than the reader accepts."""


def missing_documents() -> InvalidDocuments:
    """The error of a body without documents, for the caller to raise."""
    return InvalidDocuments(REQUIRED, [FieldError("$.documents", REQUIRED)])


def end_of_value(content: memoryview, start: int, max_bytes: int, format_: str) -> int:
    """Find the end of a value.

    Args:
        content: the body.
        start: index of the value's first byte, or of whitespace before it.
        max_bytes: maximum size of the value.
        format_: `JSON` or `MSGPACK`.

    Returns:
        Index of the first byte after the value, and after whitespace that follows it.

    Raises:
        TooLong: the value is larger than `max_bytes`.
        InvalidRequest: the value is malformed.
    """
    is_cut = len(content) - start > max_bytes
    read = content[start : start + max_bytes]
    raw: Decoder[msgspec.Raw] = _RAW[format_]
    try:
        raw.decode(read)
    except RecursionError:
        raise InvalidRequest("The body nests too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        text = str(error)
        if found := _AFTER.search(text):
            # msgspec counts from 1 in JSON, and from 0 in MessagePack.
            return start + int(found[1]) - (format_ == JSON)
        located = _BYTE.search(text)
        if is_cut and (located is None or int(located[1]) > max_bytes - CUT_BYTES):
            raise TooLong from None
        raise _malformed(format_) from None
    if is_cut:
        raise TooLong
    return len(content)


def _malformed(format_: str) -> InvalidRequest:
    return InvalidRequest(f"The body is not valid {'JSON' if format_ == JSON else 'MessagePack'}")


class _Reader:
    """Reads a large body.

    Args:
        content: the body.
        format_: `JSON` or `MSGPACK`.
        max_documents: maximum number of documents.
    """

    def __init__(self, content: bytes | memoryview, format_: str, max_documents: int) -> None:
        self._content = memoryview(content)
        self._format = format_
        self._max_documents = max_documents
        self._at = 0
        self._documents: list[memoryview] = []

    def _malformed(self) -> NoReturn:
        raise _malformed(self._format)

    def _complete(self) -> list[memoryview]:
        """The documents, at the end of the body."""
        if self._at != len(self._content):
            self._malformed()
        if not self._documents:
            raise missing_documents()
        return self._documents

    def _byte(self) -> int:
        """The byte at the current position."""
        if self._at >= len(self._content):
            self._malformed()
        return self._content[self._at]

    def _skip(self, max_bytes: int) -> memoryview:
        """Skip a value, and return its bytes."""
        start = self._at
        self._at = end_of_value(self._content, start, max_bytes, self._format)
        return self._content[start : self._at]

    def _skip_field(self) -> memoryview:
        try:
            return self._skip(MAX_FIELD_BYTES)
        except TooLong:
            message = f"A field other than 'documents' must not be larger than {MAX_FIELD_BYTES} bytes"
            raise InvalidRequest(message, [FieldError("$", message)]) from None

    def _key(self) -> object:
        """Skip a key, and return it."""
        try:
            key: object = msgspec.json.decode(self._skip_field()) if self._format == JSON else self._msgpack_key()
        except (msgspec.MsgspecError, UnicodeError):
            self._malformed()
        return key

    def _msgpack_key(self) -> object:
        return msgspec.msgpack.decode(self._skip_field())

    def _document(self) -> None:
        index = len(self._documents)
        try:
            self._documents.append(self._skip(MAX_DOCUMENT_BYTES))
        except TooLong:
            message = f"A document must not be larger than {MAX_DOCUMENT_BYTES} bytes"
            raise InvalidDocuments.at(f"$.documents[{index}]", message) from None


class _JsonReader(_Reader):
    """Reads a large body of JSON."""

    def read(self) -> Steps:
        """Read the body.

        Returns:
            The documents.
        """
        self._skip_space()
        if self._byte() != ord("{"):
            raise InvalidRequest.at("$", "Expected `object`")
        for number in range(MAX_FIELDS):
            yield
            self._at += 1
            self._skip_space()
            if number == 0 and self._byte() == ord("}"):
                break
            key = self._key()
            if not isinstance(key, str) or self._byte() != ord(":"):
                self._malformed()
            self._at += 1
            if key == "documents":
                yield from self._read_documents()
            else:
                self._skip_field()
            if self._byte() == ord("}"):
                break
            if self._byte() != ord(","):
                self._malformed()
        else:
            raise InvalidRequest.at("$", f"A body must not have more than {MAX_FIELDS} fields")
        self._at += 1
        self._skip_space()
        return self._complete()

    def _read_documents(self) -> Generator[None, None, None]:
        self._documents = []
        self._skip_space()
        if self._byte() != ord("["):
            raise missing_documents()
        self._at += 1
        self._skip_space()
        if self._byte() != ord("]"):
            yield from self._read_members()
        self._at += 1
        self._skip_space()

    def _read_members(self) -> Generator[None, None, None]:
        while True:
            if len(self._documents) == self._max_documents:
                raise BatchTooLarge(self._max_documents)
            self._document()
            yield
            if self._byte() == ord("]"):
                return
            if self._byte() != ord(","):
                self._malformed()
            self._at += 1

    def _skip_space(self) -> None:
        """Skip whitespace where no value follows, which would be skipped with it."""
        limit = self._at + MAX_FIELD_BYTES
        while self._at < len(self._content) and self._content[self._at] in SPACE:
            read = bytes(self._content[self._at : self._at + 4096])
            self._at += len(read) - len(read.lstrip(SPACE))
            if self._at > limit:
                raise InvalidRequest.at("$", "The body has too much whitespace")


class _MsgpackReader(_Reader):
    """Reads a large body of MessagePack."""

    def read(self) -> Steps:
        """Read the body.

        Returns:
            The documents.
        """
        fields = self._size(0x80, 0xDE)
        if fields is None:
            raise InvalidRequest.at("$", "Expected `object`")
        if fields > MAX_FIELDS:
            raise InvalidRequest.at("$", f"A body must not have more than {MAX_FIELDS} fields")
        for _ in range(fields):
            yield
            if self._key() == "documents":
                yield from self._read_documents()
            else:
                self._skip_field()
        return self._complete()

    def _read_documents(self) -> Generator[None, None, None]:
        self._documents = []
        count = self._size(0x90, 0xDC)
        if count is None:
            raise missing_documents()
        if count > self._max_documents:
            raise BatchTooLarge(self._max_documents, count)
        for _ in range(count):
            self._document()
            yield

    def _size(self, small: int, sized: int) -> int | None:
        """Read the head of a list or an object.

        Args:
            small: first byte of an empty one, which the bytes of up to 15 members follow.
            sized: first byte of one with a size of 16 bits; one with 32 bits follows it.

        Returns:
            The number of members; None if there is another value.
        """
        first = self._byte()
        if small <= first < small + 16:
            self._at += 1
            return first - small
        if first not in (sized, sized + 1):
            return None
        width = 2 if first == sized else 4
        size = int.from_bytes(self._content[self._at + 1 : self._at + 1 + width], "big")
        self._at += 1 + width
        return size


def split_documents(content: bytes | memoryview, format_: str, max_documents: int) -> Steps:
    """Find the documents of a large body.

    Args:
        content: the body.
        format_: `JSON` or `MSGPACK`.
        max_documents: maximum number of documents.

    Yields:
        After each value.

    Returns:
        The documents, which are well-formed values.

    Raises:
        BatchTooLarge: there are more documents.
        InvalidRequest: the body is not an object with a list of documents, or has too large fields.
    """
    reader = _MsgpackReader if format_ == MSGPACK else _JsonReader
    return reader(content, format_, max_documents).read()
