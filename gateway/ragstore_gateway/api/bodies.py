"""Decodes configurations from JSON, with errors that name the exact path of a field."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from ragstore.filters.values import MAX_INT, MIN_INT
from ragstore.kit.decoding import JSON, decoded
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.misfits import choices, exact_path, field_of, message_and_path, readable

T = TypeVar("T", bound=msgspec.Struct)

_any: Final = msgspec.json.Decoder()


def decode_configuration(kind: type[T], content: bytes) -> T:
    """Decode a configuration. An integer may have a zero fraction, as JSON has one type of numbers.

    Args:
        kind: the struct of the configuration.
        content: the body of a request.

    Raises:
        InvalidRequest: it is not JSON, or not such a configuration; the error names the path of the field.
    """
    try:
        raw = _with_integers(decoded(_any, content, JSON))
    except RecursionError:
        raise InvalidRequest("The body nests too deeply") from None
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message, location = message_and_path(str(error))
        path = exact_path(kind, raw, location)
        if field := field_of(message):
            raise InvalidRequest.at(f"{path}.{field[0]}", field[1]) from None
        raise InvalidRequest.at(path, readable(message, choices(kind, path))) from None


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_integers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    # A larger number has no integer of 64 bits, and a filter may have one.
    is_whole = isinstance(value, float) and value.is_integer() and MIN_INT <= value <= MAX_INT
    return int(value) if is_whole else value
