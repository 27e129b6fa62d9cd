"""Bodies in JSON and MessagePack, decoded from bytes into structs in one pass."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

import msgspec

from ragstore.kit.errors import InvalidRequest, UnsupportedMediaType
from ragstore.kit.misfits import (
    ANY_KEY,
    INVALID_CHOICE,
    OUT_OF_RANGE,
    choices,
    exact_path,
    field_of,
    message_and_path,
    path_out_of_range,
    readable,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
NDJSON: Final = "application/x-ndjson"
NDJSON_NAMES: Final = frozenset({NDJSON, "application/ndjson"})
MSGPACK_NAMES: Final = frozenset({MSGPACK, "application/x-msgpack", "application/vnd.msgpack"})


class Decoder(Protocol[T_co]):
    """Decodes bytes into one type, as msgspec's decoders do."""

    def decode(self, content: bytes | memoryview | msgspec.Raw, /) -> T_co:
        """Decode."""


def decoders(kind: type[T]) -> dict[str, Decoder[T]]:
    """The decoders of a type.

    Args:
        kind: the type.

    Returns:
        A decoder for each media type of a body.
    """
    return {JSON: msgspec.json.Decoder(kind), MSGPACK: msgspec.msgpack.Decoder(kind)}


def body_format(content_type: str) -> str:
    """The format of a body.

    Args:
        content_type: the header, or an empty text when it is missing.

    Returns:
        `JSON` or `MSGPACK`; without a content type the body is treated as JSON.

    Raises:
        UnsupportedMediaType: the format is not supported.
    """
    media_type = _media_type(content_type)
    if media_type in ("", JSON):
        return JSON
    if media_type in MSGPACK_NAMES:
        return MSGPACK
    raise UnsupportedMediaType(f"A body must be {JSON} or {MSGPACK}")


def check_ndjson(content_type: str) -> None:
    """Check the format of a stream.

    Args:
        content_type: the header, or an empty text when it is missing, which is accepted.

    Raises:
        UnsupportedMediaType: the format is not supported.
    """
    if _media_type(content_type) not in ("", *NDJSON_NAMES):
        raise UnsupportedMediaType(f"A stream must be {NDJSON}")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decoded(decoder: Decoder[T], content: bytes | memoryview | msgspec.Raw, format_: str, subject: str = "body") -> T:
    """Decode a body or a part of one.

    Args:
        decoder: decoder of the type.
        content: the bytes.
        format_: `JSON` or `MSGPACK`, for the error's text.
        subject: what the bytes are, for the error's text.

    Returns:
        The decoded value.

    Raises:
        InvalidRequest: the bytes are not of the format, or not of the type.
    """
    try:
        return decoder.decode(content)
    except RecursionError:
        raise InvalidRequest(f"The {subject} nests too deeply") from None
    except msgspec.ValidationError as error:
        raise _misfit(str(error), decoder, content, format_) from None
    except (msgspec.MsgspecError, UnicodeError):
        raise InvalidRequest(f"The {subject} is not valid {'JSON' if format_ == JSON else 'MessagePack'}") from None


def _misfit(text: str, decoder: Decoder[T], content: bytes | memoryview | msgspec.Raw, format_: str) -> InvalidRequest:
    """The error for a message of msgspec, which ends with a path: "Expected `int`, got `str` - at `$.top_k`"."""
    message, path = message_and_path(text)
    kind = getattr(decoder, "type", None)
    if message == OUT_OF_RANGE and format_ == JSON:
        return InvalidRequest.at(path_out_of_range(content), message)
    if ANY_KEY in path:
        path = _exact(kind, content, format_, path)
    field = field_of(message)
    if field is not None:
        return InvalidRequest.at(f"{path}.{field[0]}", field[1])
    return InvalidRequest.at(path, readable(message, choices(kind, path) if message.startswith(INVALID_CHOICE) else ()))


def _exact(kind: object, content: bytes | memoryview | msgspec.Raw, format_: str, path: str) -> str:
    """A path with the keys that msgspec leaves out."""
    try:
        value: object = (msgspec.json if format_ == JSON else msgspec.msgpack).decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return path.partition(ANY_KEY)[0]
    return exact_path(kind, value, path)
