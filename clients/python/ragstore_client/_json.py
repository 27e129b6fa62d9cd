"""Callers' values as JSON: what cannot be said is refused here, before it is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

import msgspec

from ragstore_client._exceptions import InvalidInput


def encode(value: object) -> bytes:
    """Write a value as JSON.

    Args:
        value: builtins, structs, any mapping or sequence, and numpy's scalars.

    Returns:
        JSON, UTF-8.

    Raises:
        InvalidInput: the value holds something that JSON cannot say: NaN, an infinity, a lone surrogate, a foreign
            type, a nesting without end.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise InvalidInput("a text holds a lone surrogate, which is not Unicode") from None
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"cannot be written as JSON: {type(error).__name__}") from None


def to_builtins(value: object, path: str = "$") -> object:
    """Reduce a value to what JSON knows.

    msgspec would write NaN as null, which the contract reads as "absent": the value would be lost without a word.

    Args:
        value: as for `encode`.
        path: where it stands, for the error.

    Returns:
        The same in builtins: dict, list, str, int, float, bool, None.

    Raises:
        InvalidInput: as for `encode`; the text names the place and never the value.
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
        return [_to_builtins(item, f"{path}[{position}]") for position, item in enumerate(value)]
    unwrap = getattr(value, "item", None)  # numpy's scalars, and arrays of one value
    if callable(unwrap):
        return _to_builtins(unwrap(), path)
    raise InvalidInput(f"{path}: {type(value).__name__} is not a type of JSON")


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return key
    raise InvalidInput(f"{path}: a key must be a string, not {type(key).__name__}")
