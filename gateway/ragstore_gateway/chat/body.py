"""The body of a chat request. It is patched, and fields that this version does not know keep their bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

RAG_PREFIX: Final = "rag/"

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
"""Exceptions of a decoder for bytes that are not JSON, or not of the type."""


class Head(Struct, frozen=True):
    """The fields that the gateway reads of a request that it passes through.

    Attributes:
        model: the model.
        stream: whether the response is a stream.
    """

    model: str = ""
    stream: bool | None = None


_HEAD: Final = msgspec.json.Decoder(Head)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def read_head(body: bytes) -> Head:
    """Read the head of a request.

    Args:
        body: the request's body.

    Returns:
        The head; an empty one if the body is not a JSON object. The upstream judges such a body.
    """
    try:
        return _HEAD.decode(body)
    except msgspec.ValidationError:
        return Head()
    except UNREADABLE:
        return _lenient_head(body)


def _lenient_head(body: bytes) -> Head:
    """Read a body that Python's decoder accepts and msgspec does not.

    JavaScript's encoder writes half of a surrogate pair as an escape, where a text was cut in the middle of an emoji.
    """
    try:
        return msgspec.convert(json.loads(body), Head)
    except UNREADABLE:
        return Head()


def read_fields(body: bytes) -> dict[str, Raw]:
    """The fields of a JSON object, with the bytes of their values.

    Args:
        body: the object.

    Raises:
        ValueError: it is not an object.
    """
    try:
        return _FIELDS.decode(body)
    except UNREADABLE:
        decoded: object = json.loads(body)
        if not isinstance(decoded, dict):
            raise ValueError("not an object") from None
        return {name: Raw(json.dumps(_without_surrogates(value)).encode()) for name, value in decoded.items()}


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value


def write_fields(fields: Mapping[str, Raw | object]) -> bytes:
    """A JSON object, in which values of type `Raw` have their own bytes."""
    return msgspec.json.encode(fields)


def encode_raw(value: object) -> Raw:
    """A value as JSON."""
    return Raw(msgspec.json.encode(value))
