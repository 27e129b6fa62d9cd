"""One HTTP call as a value: what to send, and how to decode the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Generic, TypeVar
from urllib.parse import quote

import msgspec

from ragstore_client._exceptions import InvalidInput
from ragstore_client._json import to_text

T_co = TypeVar("T_co", covariant=True)


class Call(msgspec.Struct, Generic[T_co], frozen=True):
    """One call.

    Attributes:
        method: the HTTP method.
        path: the path below the base URL, percent-encoded.
        decode: decodes the body of a successful response.
        params: the query string.
        body: what to send: bytes, or a file that can be read repeatedly and is sent in parts.
        content_type: media type of the body.
        accept: media types of the response, where it may be other than JSON.
        idempotent: whether sending it twice has the same effect as sending it once.
        accepted_statuses: statuses other than 2xx whose body is decoded as well.
        result_if_gone: the result of a 404 that follows an attempt which may have been applied.
        read_headers: makes the result from the decoded body and the response's headers, where it needs both. It raises
            `ValueError` for headers that do not match the contract.
    """

    method: str
    path: str
    decode: Callable[[bytes], T_co]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | IO[bytes] | None = None
    content_type: str = "application/json"
    accept: str | None = None
    idempotent: bool = True
    accepted_statuses: tuple[int, ...] = ()
    result_if_gone: T_co | None = None
    read_headers: Callable[[T_co, Mapping[str, str]], T_co] | None = None


def path_segment(name: str) -> str:
    """Encode a name as one segment of a path.

    Raises:
        InvalidInput: no path can have it.
    """
    name = to_text(name, "name")
    if name in ("", ".", ".."):
        # As segments of a path these have another meaning for every proxy.
        raise InvalidInput(f"{name!r} cannot be a segment of a path")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise InvalidInput("a name contains a lone surrogate, which is not Unicode") from None


def query_params(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    """The parameters of a query string. A parameter that is None is left out."""
    return tuple((name, str(value)) for name, value in values.items() if value is not None)
