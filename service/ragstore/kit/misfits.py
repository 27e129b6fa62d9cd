"""The messages and paths of msgspec's errors, made readable for the callers of an API."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

ANY_KEY: Final = "[...]"
"""The sign of msgspec for the key of an object, in a path."""

INVALID_CHOICE: Final = "Invalid enum value"

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_GOT: Final = re.compile(r"got `(\w+)`$")
_BOUND: Final = re.compile(r"`float` (>=|<=|>|<) (-?\d+(?:\.\d+)?)")

_KINDS: Final[dict[type, str]] = {
    bool: "bool",
    bytes: "bytes",
    dict: "object",
    float: "float",
    int: "int",
    list: "array",
    str: "str",
    type(None): "null",
}
"""msgspec's name of each type of a decoded value."""


def readable(message: str, values: Sequence[object] = ()) -> str:
    """A message without values of the request, and with whole numbers as they are written in JSON.

    Args:
        message: of msgspec, such as "Invalid enum value 'euclid'" or "Expected `float` >= 1.0".
        values: the accepted values of a field that has a choice of them.

    Returns:
        Such as "Invalid enum value: expected 'cosine', 'ip' or 'l2'" or "Expected a number >= 1".
    """
    if not message.startswith(INVALID_CHOICE):
        return _BOUND.sub(lambda found: f"a number {found[1]} {float(found[2]):g}", message)
    if not values:
        return INVALID_CHOICE
    *others, last = map(repr, values)
    return f"{INVALID_CHOICE}: expected {', '.join(others)}{' or ' if others else ''}{last}"


def named_keys(path: str, message: str, content: bytes | memoryview | msgspec.Raw, format_: str) -> str:
    """A path of msgspec with the keys that it leaves out.

    Args:
        path: such as `$.metadata[...]`.
        message: such as "Expected `str`, got `object`".
        content: what was decoded.
        format_: its media type.

    Returns:
        The path of the first value with the type of the message, such as `$.metadata.page`; the same path if there is
        none.
    """
    got = _GOT.search(message)
    if got is None:
        return path
    try:
        value: object = (msgspec.json if format_.endswith("json") else msgspec.msgpack).decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return path
    steps = [name or index for name, index in _STEP.findall(path)]
    return next(_paths(value, steps, "$", got[1]), path)


def _paths(value: Any, steps: list[str], path: str, kind: str) -> Iterator[str]:
    """The paths of values of a kind after some steps."""
    if not steps:
        if _KINDS.get(type(value)) == kind:
            yield path
        return
    step, *rest = steps
    if isinstance(value, list):
        if step.isdecimal() and int(step) < len(value):
            yield from _paths(value[int(step)], rest, f"{path}[{step}]", kind)
    elif isinstance(value, dict):
        for key in value if step == "..." else (step,) if step in value else ():
            yield from _paths(value[key], rest, f"{path}.{key}", kind)


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
