"""JSON and MessagePack bodies, chosen by the request's headers.

`Decoded` decodes a request body from bytes into its struct in one pass. `NegotiatedResponse` encodes structs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec
import numpy as np
from litestar import Request, Response
from litestar.dto import AbstractDTO
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.response.base import ASGIResponse
from litestar.typing import FieldDefinition

from ragstore.kit.decoding import (
    JSON,
    MSGPACK,
    MSGPACK_NAMES,
    Decoder,
    T,
    body_format,
    decoded,
    decoders,
)
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.value_count import MAX_VALUES, has_too_many_values
from ragstore.model.vectors import to_bytes

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator
    from litestar.openapi.spec import Reference, Schema


WEIGHT: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
"""A weight in an `Accept` header."""

POSITION_WEIGHT: Final = 1e-7
"""Of two types with the same weight the earlier one is preferred: weights have three digits."""


class Decoded(AbstractDTO[T], Generic[T]):
    """Decodes a body into its struct. `Decoded[SomeBody]` is the DTO of a handler that takes `data: SomeBody`."""

    def decode_bytes(self, value: bytes) -> object:
        """Decode a body of either format.

        Raises:
            InvalidRequest: the body does not have the struct's type.
            UnsupportedMediaType: the body has another format.
        """
        format_ = body_format(self.asgi_connection.headers.get("content-type", ""))
        return self.decode(value, format_)

    def decode(self, value: bytes, format_: str) -> object:
        """Decode a body of a known format.

        Args:
            value: the body.
            format_: `JSON` or `MSGPACK`.
        """
        if has_too_many_values(value, format_):
            raise InvalidRequest(f"The body must not have more than {MAX_VALUES} values")
        return decoded(_decoders_for(self.model_type)[format_], value, format_)

    @classmethod
    def create_for_field_definition(cls, *args: object, **kwargs: object) -> None:
        """Create the decoders, so that a struct that msgspec cannot decode fails at startup."""
        _decoders_for(cls.model_type)

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        """The schema of the struct."""
        return schema_creator.for_field_definition(FieldDefinition.from_annotation(cls.model_type))

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[DTOFieldDefinition, None, None]:
        """No field definitions: the struct is decoded as a whole."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """No nested fields, for the same reason."""
        return False


_DECODERS: Final[dict[type, dict[str, Decoder[object]]]] = {}


def _decoders_for(kind: type) -> dict[str, Decoder[object]]:
    if kind not in _DECODERS:
        _DECODERS[kind] = decoders(kind)
    return _DECODERS[kind]


def _embedding_to_json(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError


def _embedding_to_msgpack(value: object) -> object:
    if isinstance(value, np.ndarray):
        return to_bytes(value)
    raise NotImplementedError


_ENCODERS: Final[dict[str, Callable[[object], bytes]]] = {
    JSON: msgspec.json.Encoder(enc_hook=_embedding_to_json).encode,
    MSGPACK: msgspec.msgpack.Encoder(enc_hook=_embedding_to_msgpack).encode,
}


def wants_msgpack(request: Request[Any, Any, Any]) -> bool:
    """Whether the client prefers MessagePack to JSON."""
    accepted = request.headers.get("accept", "")
    return "msgpack" in accepted and prefers_msgpack(accepted)


def prefers_msgpack(accept: str) -> bool:
    """Whether an `Accept` header gives MessagePack a higher weight than JSON, or the same one and names it first.

    Litestar's parser fails on a weight of `inf`, and takes 0 for an ordinary one. Here 0 excludes a type, and a weight
    that is not valid counts as 0, too.
    """
    weights: dict[str, float] = {}
    for position, part in enumerate(accept.lower().split(",")):
        name, *parameters = (each.strip() for each in part.split(";"))
        kind = MSGPACK if name in MSGPACK_NAMES else name
        texts = [each.removeprefix("q=") for each in parameters if each.startswith("q=")]
        text = texts[0] if texts else "1"
        weight = float(text) if WEIGHT.fullmatch(text) else 0.0
        if weight and kind not in weights:
            weights[kind] = weight - position * POSITION_WEIGHT
    json = max(weights.get(name, 0.0) for name in (JSON, "application/*", "*/*"))
    return weights.get(MSGPACK, 0.0) > json


class NegotiatedResponse(Response[T]):
    """A struct as JSON, or as MessagePack if the client prefers it."""

    def to_asgi_response(
        self,
        app: Any,
        request: Request[Any, Any, Any],
        *,
        headers: dict[str, str] | None = None,
        status_code: int | None = None,
        **kwargs: Any,
    ) -> ASGIResponse:
        """Encode a struct in the format that the client accepts. Other content is left to Litestar."""
        if not isinstance(self.content, msgspec.Struct) or self.media_type not in (None, JSON):
            return super().to_asgi_response(app, request, headers=headers, status_code=status_code, **kwargs)
        format_ = MSGPACK if wants_msgpack(request) else JSON
        return ASGIResponse(
            body=_ENCODERS[format_](self.content),
            headers={**(headers or {}), **self.headers},
            media_type=format_,
            status_code=self.status_code or status_code,
        )
