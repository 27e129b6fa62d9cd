"""The messages and paths of msgspec's errors, made readable for the callers of an API."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

ANY_KEY: Final = "[...]"
"""The sign of msgspec for the key of an object, in a path."""

INVALID_CHOICE: Final = "Invalid enum value"
OUT_OF_RANGE: Final = "Number out of range"
OTHER_FORM: Final = "Must be of another form"
"""The message for a text that does not match a pattern without a description."""

MAX_FLOAT_DIGITS: Final = 309
"""An integer of fewer digits is not too large for a float."""

_KEY: Final = "`key` in "

_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_BOUND: Final = re.compile(r"`float` (>=|<=|>|<) (-?\d+(?:\.\d+)?)")
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_PATTERN: Final = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_descriptions: Final[dict[str, str]] = {}


def described(pattern: str, sentence: str) -> str:
    """A pattern for `msgspec.Meta`, with what a caller reads in place of the pattern.

    Args:
        pattern: the regular expression.
        sentence: such as "Must have no control characters".

    Returns:
        The pattern.
    """
    _descriptions[repr(pattern)] = sentence  # msgspec writes a pattern as Python's repr() does
    return pattern


def readable(message: str, values: Sequence[object] = ()) -> str:
    """A message without values of the request, without patterns, and with whole numbers as they are written in JSON.

    Args:
        message: of msgspec, such as "Invalid enum value 'euclid'" or "Expected `float` >= 1.0".
        values: the accepted values of a field that has a choice of them.

    Returns:
        Such as "Invalid enum value: expected 'cosine', 'ip' or 'l2'" or "Expected a number >= 1".
    """
    if found := _PATTERN.fullmatch(message):
        return _descriptions.get(found[1], OTHER_FORM)
    if not message.startswith(INVALID_CHOICE):
        return _BOUND.sub(lambda found: f"a number {found[1]} {float(found[2]):g}", message)
    if not values:
        return INVALID_CHOICE
    *others, last = map(repr, values)
    return f"{INVALID_CHOICE}: expected {', '.join(others)}{' or ' if others else ''}{last}"


def message_and_path(text: str) -> tuple[str, str]:
    """The parts of msgspec's text of an error: "Expected `int`, got `str` - at `$.chunkSize`".

    Returns:
        The message, and the path that msgspec reports. An error of a key itself, "`key` in `$.headers`", has the path
        of any key, `$.headers[...]`.
    """
    message, separator, location = text.rpartition(" - at ")
    if not separator:
        return text, "$"
    path = location.rpartition(" in ")[2].strip("`")
    return message, f"{path}{ANY_KEY}" if location.startswith(_KEY) else path


def field_of(message: str) -> tuple[str, str] | None:
    """The field of a message about a missing or unknown one.

    Args:
        message: of msgspec, such as "Object missing required field `urls`".

    Returns:
        The field, and "Required" or "Unknown field"; None for another message.
    """
    found = _FIELD.fullmatch(message)
    if found is None:
        return None
    return found[2], "Required" if found[1] == "missing required" else "Unknown field"


def exact_path(kind: Any, value: Any, location: str) -> str:
    """A path of msgspec with the keys that it leaves out: of each object, the first one that is to blame.

    Args:
        kind: the type of the whole.
        value: the whole, as JSON's own types. It is reduced to what is on the path.
        location: the path that msgspec reports, such as `$.metadata[...]`.

    Returns:
        The path, such as `$.metadata.page`. It ends before a key that is not found.
    """
    found: list[str | int] = []
    reduced = "$"
    container = value
    for name, index in _STEP.findall(location):
        if name:
            step: str | int = name
            reduced += f".{name}"
            value_at = container.get(name) if isinstance(container, dict) else None
        elif index == "...":
            reduced += ANY_KEY
            key = _key_to_blame(kind, value, container, reduced) if isinstance(container, dict) else None
            if key is None:
                break
            step, value_at = key, container.get(key)
        else:
            step = int(index)
            value_at = container[step] if isinstance(container, list) and step < len(container) else None
            if isinstance(container, list):
                # The others are not needed: this is the first one that is wrong.
                container[:] = [value_at]
            reduced += "[0]"
        found.append(step)
        container = value_at
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found)


def _key_to_blame(kind: Any, whole: Any, container: dict[str, Any], reduced: str) -> str | None:
    """The first key of an object without which the error is another one. It alone is left in the object.

    The error is in the first half of the keys, or else in the second one, so that the search costs twice the first
    conversion.
    """
    entries = list(container.items())
    while len(entries) > 1:
        half = len(entries) // 2
        container.clear()
        container.update(entries[:half])
        entries = entries[:half] if _is_at(kind, whole, reduced) else entries[half:]
    container.clear()
    container.update(entries)
    return entries[0][0] if entries and _is_at(kind, whole, reduced) else None


def _is_at(kind: Any, whole: Any, reduced: str) -> bool:
    """Whether an error is at a path, or below it."""
    try:
        msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        return message_and_path(str(error))[1].startswith(reduced)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return False
    return False


def path_out_of_range(content: bytes | memoryview | msgspec.Raw) -> str:
    """The path of the first number that is too large for a float.

    Args:
        content: JSON.

    Returns:
        The path; `$` if there is none.
    """
    try:
        value = json.loads(bytes(content), parse_int=_float)
    except (ValueError, RecursionError):
        return "$"
    return next(_infinite(value, "$"), "$")


def _float(digits: str) -> float:
    return 0.0 if len(digits) < MAX_FLOAT_DIGITS else float(digits)


def _infinite(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _infinite(each, f"{path}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _infinite(each, f"{path}[{index}]")
    elif isinstance(value, float) and math.isinf(value):
        yield path


def choices(kind: Hashable, path: str) -> Sequence[object]:
    """The accepted values of a field that has a choice of them.

    Args:
        kind: the type of the whole.
        path: the field's path.

    Returns:
        The values; none if they are not known.
    """
    if kind is None:
        return ()
    found = [_type_info(kind)]
    for name, index in _STEP.findall(path):
        found = [inner for outer in found for inner in _inner(outer, name or index)]
    return [value for one in found for value in _values(one)]


@lru_cache(maxsize=256)
def _type_info(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


def _members(kind: inspect.Type) -> Iterator[inspect.Type]:
    """A type without its metadata, or the types of a union."""
    if isinstance(kind, inspect.Metadata):
        yield from _members(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _members(member)
    else:
        yield kind


def _inner(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """The types of the values at one step of a path."""
    for member in _members(kind):
        if isinstance(member, inspect.StructType):
            yield from (field.type for field in member.fields if field.encode_name == step)
        elif isinstance(member, inspect.ListType):
            yield member.item_type
        elif isinstance(member, inspect.DictType):
            yield member.value_type


def _values(kind: inspect.Type) -> Iterator[object]:
    for member in _members(kind):
        if isinstance(member, inspect.LiteralType):
            yield from member.values
        elif isinstance(member, inspect.EnumType):
            yield from (choice.value for choice in member.cls)
