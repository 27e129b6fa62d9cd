"""Encodes callers' values as JSON. Values that JSON cannot represent are rejected before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set

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
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # numpy's strings and other subclasses, which msgspec does not encode
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{path}: a number must be finite")
        return float(value)
    if isinstance(value, Mapping):
        return {_key(key, path): _to_builtins(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        raise InvalidInput(f"{path}: {kind.__name__} is not a JSON type")
    if isinstance(value, Sequence | Set):
        return [_to_builtins(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if getattr(value, "shape", None) == ():  # numpy's scalars
        item = value.item()  # type: ignore[attr-defined]  # what has a shape is of numpy, or like it
        if type(item) is not kind:
            return _to_builtins(item, path)
    raise InvalidInput(f"{path}: {kind.__name__} is not a JSON type")


def to_text(value: object, path: str) -> str:
    """Convert a value that must be a string.

    Args:
        value: a string, or numpy's kind of one.
        path: JSON path of the value, for the error.

    Returns:
        The string.

    Raises:
        InvalidInput: it is of another type.
    """
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise InvalidInput(f"{path}: must be a string, not {type(value).__name__}")


def to_strings(values: Iterable[str], name: str) -> list[str]:
    """Convert several strings, such as ids.

    Args:
        values: the strings. One `str` is rejected: its characters would be used, `"12"` as `"1"` and `"2"`.
        name: the argument's name, for the error.

    Returns:
        The strings as a list.

    Raises:
        InvalidInput: the value is a single string, or no collection of strings.
    """
    if isinstance(values, str | bytes):
        raise InvalidInput(f"{name} must be a list of strings, not one {type(values).__name__}: use [{name[:-1]}]")
    try:
        return [to_text(value, f"{name}[{index}]") for index, value in enumerate(values)]
    except TypeError:
        raise InvalidInput(f"{name} must be a list of strings, not {type(values).__name__}") from None


def drop_none(**members: object) -> dict[str, object]:
    """The members of an object that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise InvalidInput(f"{path}: a key must be a string, not {type(key).__name__}")
