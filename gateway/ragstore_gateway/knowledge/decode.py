"""Decodes configurations from JSON, with errors that name the exact path of a field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from ragstore.kit.decoding import JSON, decoded
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.misfits import choices, readable
from ragstore_gateway.knowledge.assistant import (
    BASE_URL,
    HEADER_NAME,
    POINTER,
    SHORT_NAME,
    TEMPLATE_URL,
)
from ragstore_gateway.knowledge.knowledge_base import NAME
from ragstore_gateway.knowledge.source import PATH_PREFIX, SOURCE_NAME

T = TypeVar("T", bound=msgspec.Struct)

UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
PATTERN: Final = re.compile(r"Expected `str` matching regex '(.*)'", re.DOTALL)
ANY_KEY: Final = "[...]"
"""msgspec's sign for a key of an object that has any keys."""

_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_any: Final = msgspec.json.Decoder()
_patterns: Final = {
    # msgspec writes a pattern as Python's repr() does.
    repr(pattern)[1:-1]: text
    for pattern, text in {
        NAME: "Must have no control characters, and no space at either end",
        SOURCE_NAME: "Must begin with a letter or a digit, and consist of letters, digits, _, . and -",
        PATH_PREFIX: "Must begin with / and have no query, spaces or control characters",
        SHORT_NAME: "Names must consist of letters, digits, _ and -",
        HEADER_NAME: "Must be names of headers",
        TEMPLATE_URL: "Must be an http:// or https:// address, without a user, and without variables in the host",
        BASE_URL: "Must be an http:// or https:// address, without a user and a query",
        POINTER: "Must be a JSON pointer, such as /results/0/text",
    }.items()
}


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
        message, location = _parts(error)
        path = _rendered(_exact(kind, raw, location))
        raise _invalid(kind, message, path) from None


def _invalid(kind: type[msgspec.Struct], message: str, path: str) -> InvalidRequest:
    if found := UNKNOWN.fullmatch(message):
        return InvalidRequest.at(_below(path, found[1]), "Unknown field")
    if found := MISSING.fullmatch(message):
        return InvalidRequest.at(_below(path, found[1]), "Required")
    if found := PATTERN.fullmatch(message):
        return InvalidRequest.at(path, _patterns.get(found[1], "Must be of another form"))
    return InvalidRequest.at(path, readable(message, choices(kind, path)))


def _parts(error: msgspec.ValidationError) -> tuple[str, str]:
    """Message and path of msgspec's error: "Expected `int`, got `str` - at `$.chunkSize`"."""
    message, separator, location = str(error).rpartition(" - at ")
    if not separator:
        return str(error), "$"
    return message, location.rpartition(" in ")[2].strip("`")


def _exact(kind: type[T], raw: Any, location: str) -> list[str | int]:
    """The steps of a path, with each `[...]` replaced by the key that is to blame: the first that alone is wrong, too.

    Args:
        kind: the struct.
        raw: the configuration. Other keys are removed from it.
        location: the path that msgspec reports.
    """
    found: list[str | int] = []
    container = raw
    for name, index in _STEP.findall(location):
        step = name or (ANY_KEY if index == "..." else int(index))
        if step == ANY_KEY and isinstance(container, dict):
            step = _to_blame(kind, raw, container, location)
        found.append(step)
        container = container[step] if _has(container, step) else None
    return found


def _to_blame(kind: type[T], raw: Any, container: dict[str, Any], location: str) -> str:
    entries = dict(container)
    for key in entries:
        container.clear()
        container[key] = entries[key]
        try:
            msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            if _parts(error)[1] == location:
                return key
    return ANY_KEY  # not reached: one of the keys is wrong


def _has(container: Any, step: str | int) -> bool:
    if isinstance(container, dict):
        return step in container
    return isinstance(container, list) and isinstance(step, int) and step < len(container)


def _rendered(steps: Iterable[str | int]) -> str:
    """A path as callers read it. The names of keys are the caller's own, so they are never parsed again."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}"


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_integers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
