"""Decoding of large documents, whose texts never exist as a whole.

CPython stores all characters of a text with the width of the widest one. A text of 8 MiB with one emoji takes 32 MiB,
and 8 MiB more while it is decoded. Here, texts are decoded in slices, and kept as UTF-8.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Annotated, Final, TypeAlias

import msgspec

from ragstore.filters.values import Scalar
from ragstore.kit.decoding import JSON, MSGPACK, Decoder, decoded, decoders
from ragstore.model.large_bodies.packed_metadata import NewPackedValue
from ragstore.model.large_bodies.packed_text import PackedText, Text, pack_text

LARGE_BYTES: Final = 256 * 1024
"""Minimum size of a large document."""

SLICE_BYTES: Final = 64 * 1024
"""Size of the slices in which texts are decoded. Smaller texts are decoded as a whole."""

STEP_VALUES: Final = 500
"""Number of metadata values that are decoded in one step, in 1 to 3 ms."""

MAX_UNIT_BYTES: Final = 12
"""Maximum size of what a slice must not cut: a character, or its escapes, such as `\\ud83d\\ude03`."""

MSGPACK_HEADS: Final = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""Bytes before the content of a text in MessagePack, by the first one. Shorter texts have other heads."""

QUOTE: Final = b'"'


class _RawDocument(msgspec.Struct):
    """A document whose texts are not decoded yet."""

    text: msgspec.Raw
    embedding: list[float] | bytes
    id: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    metadata: dict[str, msgspec.Raw] | None = None


class LargeDocument(msgspec.Struct):
    """A document to store, with texts that may be packed."""

    text: Text
    embedding: list[float] | bytes
    id: str | None
    metadata: dict[str, NewPackedValue] | None


_DOCUMENT: Final = decoders(_RawDocument)
_TEXT: Final = decoders(str)
_Value: TypeAlias = str | int | float | bool | list[msgspec.Raw] | None

_VALUE: Final[dict[str, Decoder[_Value]]] = {
    JSON: msgspec.json.Decoder(_Value),
    MSGPACK: msgspec.msgpack.Decoder(_Value),
}
_SCALAR: Final[dict[str, Decoder[Scalar]]] = {
    JSON: msgspec.json.Decoder(Scalar),
    MSGPACK: msgspec.msgpack.Decoder(Scalar),
}


def decode_large(raw: memoryview, format_: str, subject: str) -> Generator[None, None, LargeDocument | None]:
    """Decode a large document.

    Args:
        raw: the document.
        format_: `JSON` or `MSGPACK`.
        subject: what contains the document, for error messages.

    Yields:
        After each `STEP_VALUES` of its metadata.

    Returns:
        The document; None if its text or its metadata is invalid.

    Raises:
        InvalidRequest: it is malformed, or another field is invalid.
    """
    document: Decoder[_RawDocument] = _DOCUMENT[format_]
    fields = decoded(document, raw, format_, subject)
    try:
        text = _decode_text(fields.text, format_)
        values: dict[str, NewPackedValue] = {}
        for number, (key, value) in enumerate((fields.metadata or {}).items()):
            if number % STEP_VALUES == 0:
                yield
            values[key] = _decode_value(value, format_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return LargeDocument(text, fields.embedding, fields.id, None if fields.metadata is None else values)


def _decode_value(raw: msgspec.Raw, format_: str) -> NewPackedValue:
    if _is_long_text(raw, format_):
        return _decode_text(raw, format_)
    value = _VALUE[format_].decode(raw)
    if isinstance(value, list):
        return [_decode_item(each, format_) for each in value]
    return pack_text(value) if isinstance(value, str) else value


def _decode_item(raw: msgspec.Raw, format_: str) -> Scalar | PackedText:
    if _is_long_text(raw, format_):
        return _decode_text(raw, format_)
    value = _SCALAR[format_].decode(raw)
    return pack_text(value) if isinstance(value, str) else value


def _is_long_text(raw: msgspec.Raw, format_: str) -> bool:
    content = memoryview(raw)
    return len(content) > SLICE_BYTES and (content[0] == QUOTE[0] if format_ == JSON else content[0] in MSGPACK_HEADS)


def _decode_text(raw: msgspec.Raw, format_: str) -> Text:
    if not _is_long_text(raw, format_):
        decoder: Decoder[str] = _TEXT[format_]
        return pack_text(decoder.decode(raw))
    content = memoryview(raw)
    content = content[1:-1] if format_ == JSON else content[MSGPACK_HEADS[content[0]] :]
    return PackedText.join(_slices(content, format_))


def _slices(content: memoryview, format_: str) -> Iterator[str]:
    """The content of a text, in slices."""
    start = 0
    while start < len(content):
        cut = content[start : start + SLICE_BYTES]
        text, size = _decode_slice(bytes(cut), format_, is_last=start + len(cut) == len(content))
        yield text
        start += size


def _decode_slice(content: bytes, format_: str, *, is_last: bool) -> tuple[str, int]:
    """Decode a slice of a text, up to the last character or escape that it does not cut.

    Such a cut is an error. A shorter slice is decoded only if it ends after a character or an escape.

    Returns:
        The text, and the number of its bytes.
    """
    for size in range(len(content), max(0, len(content) - MAX_UNIT_BYTES), -1):
        try:
            part = content[:size]
            text: str = msgspec.json.decode(QUOTE + part + QUOTE, type=str) if format_ == JSON else part.decode()
        except (msgspec.MsgspecError, UnicodeError):
            if is_last:
                raise
        else:
            return text, size
    raise msgspec.DecodeError("malformed text")
