"""JSON and MessagePack, in and out, chosen by the request's headers.

Bodies are decoded from bytes into their struct in one pass, by the DTOs made here; `NegotiatedResponse` encodes
structs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from litestar import Request, Response
from litestar.dto import AbstractDTO
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.response.base import ASGIResponse
from litestar.typing import FieldDefinition

from ragstore.errors import FieldProblem, InvalidRequest, UnsupportedMediaType, without_value

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator
    from litestar.openapi.spec import Reference, Schema

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
NDJSON: Final = "application/x-ndjson"
NDJSON_NAMES: Final = frozenset({NDJSON, "application/ndjson"})
MSGPACK_NAMES: Final = frozenset({MSGPACK, "application/x-msgpack", "application/vnd.msgpack"})


class Decoder(Protocol[T_co]):
    """Decodes bytes into one type, as msgspec's decoders do."""

    def decode(self, content: bytes | msgspec.Raw, /) -> T_co:
        """Decode."""


def decoders(kind: type[T]) -> dict[str, Decoder[T]]:
    """The decoders of a type.

    Args:
        kind: the type.

    Returns:
        A decoder for each media type that bodies come in.
    """
    return {JSON: msgspec.json.Decoder(kind), MSGPACK: msgspec.msgpack.Decoder(kind)}


def body_format(content_type: str) -> str:
    """The format of a body.

    Args:
        content_type: the header, or an empty text when it is missing.

    Returns:
        `JSON` or `MSGPACK`; a body that does not say is taken for JSON.

    Raises:
        UnsupportedMediaType: it is another one.
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
        content_type: the header, or an empty text when it is missing; a stream that does not say is taken for one.

    Raises:
        UnsupportedMediaType: it is another one.
    """
    if _media_type(content_type) not in ("", *NDJSON_NAMES):
        raise UnsupportedMediaType(f"A stream must be {NDJSON}")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decoded(decoder: Decoder[T], content: bytes | msgspec.Raw, format_: str) -> T:
    """Decode a body or a part of one.

    Args:
        decoder: of the wanted type.
        content: the bytes.
        format_: `JSON` or `MSGPACK`, for the error's text.

    Returns:
        The decoded value.

    Raises:
        InvalidRequest: the bytes are not of the format, or not of the type.
    """
    try:
        return decoder.decode(content)
    except RecursionError:
        raise InvalidRequest("The body nests too deeply") from None
    except msgspec.ValidationError as error:
        raise _misfit(str(error)) from None
    except (msgspec.MsgspecError, UnicodeError):
        raise InvalidRequest(f"The body is not valid {'JSON' if format_ == JSON else 'MessagePack'}") from None


def _misfit(text: str) -> InvalidRequest:
    """Msgspec says what and where in one text: "Expected `int`, got `str` - at `$.top_k`"."""
    message, _, place = text.rpartition(" - at ") if " - at " in text else (text, "", "")
    message = without_value(message)
    path = place.rpartition(" in ")[2].strip("`") or "$"
    return InvalidRequest(f"{message}: {path}", [FieldProblem(path, message)])


class Decoded(AbstractDTO[T], Generic[T]):
    """Decodes a body into its struct. `Decoded[SomeBody]` is the DTO of a handler that takes `data: SomeBody`."""

    def decode_bytes(self, value: bytes) -> object:
        """Decode a body of either format.

        Args:
            value: the body.

        Returns:
            The struct.

        Raises:
            InvalidRequest: it is no such struct.
            UnsupportedMediaType: it is of neither format.
        """
        format_ = body_format(self.asgi_connection.headers.get("content-type", ""))
        return self.decode(value, format_)

    def decode(self, value: bytes, format_: str) -> object:
        """Decode a body of a known format.

        Args:
            value: the body.
            format_: `JSON` or `MSGPACK`.

        Returns:
            The struct.
        """
        return decoded(_decoders_of(self.model_type)[format_], value, format_)

    @classmethod
    def create_for_field_definition(cls, *args: object, **kwargs: object) -> None:
        """Make the decoders, so that a struct msgspec cannot decode is found at the start."""
        _decoders_of(cls.model_type)

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        """The struct's own schema."""
        return schema_creator.for_field_definition(FieldDefinition.from_annotation(cls.model_type))

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[DTOFieldDefinition, None, None]:
        """No field is treated apart."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """No field is treated apart."""
        return False


_DECODERS: Final[dict[type, dict[str, Decoder[object]]]] = {}


def _decoders_of(kind: type) -> dict[str, Decoder[object]]:
    if kind not in _DECODERS:
        _DECODERS[kind] = decoders(kind)
    return _DECODERS[kind]


def _json_embedding(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError


def _msgpack_embedding(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.astype("<f4", copy=False).tobytes()
    raise NotImplementedError


_ENCODERS: Final[dict[str, Callable[[object], bytes]]] = {
    JSON: msgspec.json.Encoder(enc_hook=_json_embedding).encode,
    MSGPACK: msgspec.msgpack.Encoder(enc_hook=_msgpack_embedding).encode,
}


def wants_msgpack(request: Request[Any, Any, Any]) -> bool:
    """Whether a caller prefers MessagePack to JSON."""
    accepted = request.headers.get("accept", "")
    return "msgpack" in accepted and request.accept.best_match([JSON, *MSGPACK_NAMES]) in MSGPACK_NAMES


class NegotiatedResponse(Response[T]):
    """A struct as JSON, or as MessagePack for callers that prefer it."""

    def to_asgi_response(
        self,
        app: Any,
        request: Request[Any, Any, Any],
        *,
        headers: dict[str, str] | None = None,
        status_code: int | None = None,
        **kwargs: Any,
    ) -> ASGIResponse:
        """Encode in the format that the caller accepts; other responses pass as they are."""
        if not isinstance(self.content, msgspec.Struct) or self.media_type not in (None, JSON):
            return super().to_asgi_response(app, request, headers=headers, status_code=status_code, **kwargs)
        format_ = MSGPACK if wants_msgpack(request) else JSON
        return ASGIResponse(
            body=_ENCODERS[format_](self.content),
            headers={**(headers or {}), **self.headers},
            media_type=format_,
            status_code=self.status_code or status_code,
        )
