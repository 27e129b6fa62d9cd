"""Encodes callers' values as JSON. Values that JSON cannot represent are rejected before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

import msgspec

from ragstore_client._exceptions import InvalidInput


def encode(value: object) -> bytes:
    """Encode a value as JSON.

    Args:
        value: builtins and structs; other types after `to_builtins`.

    Returns:
        JSON, UTF-8.

    Raises:
        InvalidInput: the value contains a lone surrogate or a type that JSON cannot represent, or is nested too deeply.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise InvalidInput("a text contains a lone surrogate, which is not Unicode") from None
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"cannot be encoded as JSON: {type(error).__name__}") from None


def to_builtins(value: object, path: str = "$") -> object:
    """Convert a value to the builtins that JSON represents.

    msgspec would encode NaN as null, which the contract reads as "absent": the value would be lost without an error.

    Args:
        value: builtins, any mapping, sequence or set, and numpy's scalars.
        path: JSON path of the value, for the error.

    Returns:
        The value as dict, list, str, int, float, bool or None.

    Raises:
        InvalidInput: the value contains NaN, an infinity, a type that JSON cannot represent or a key that is no string,
            or is nested without end; the text names the path and never the value.
    """
    try:
        return _to_builtins(value, path)
    except RecursionError:
        raise InvalidInput(f"{path}: nested too deeply") from None


def _to_builtins(value: object, path: str) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{path}: a number must be finite")
        return float(value)
    if isinstance(value, Mapping):
        return {_key(key, path): _to_builtins(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence | Set):
        return [_to_builtins(item, f"{path}[{index}]") for index, item in enumerate(value)]
    unwrap = getattr(value, "item", None)  # numpy's scalars, and arrays of one value
    if callable(unwrap):
        return _to_builtins(unwrap(), path)
    raise InvalidInput(f"{path}: {type(value).__name__} is not a JSON type")


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return key
    raise InvalidInput(f"{path}: a key must be a string, not {type(key).__name__}")
