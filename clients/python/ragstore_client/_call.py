"""One HTTP call as a value: what to send, and how to decode the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)


class Call(msgspec.Struct, Generic[T_co], frozen=True):
    """One call.

    Attributes:
        method: the HTTP method.
        path: the path below the base URL, percent-encoded.
        decode: decodes the body of a successful response.
        params: the query string.
        body: what to send.
        content_type: media type of the body.
        accept: media types of the response, where it may be other than JSON.
        idempotent: whether sending it twice has the same effect as sending it once.
        accepted_statuses: statuses other than 2xx whose body is decoded as well.
        result_if_gone: the result of a 404 that follows an attempt which may have been applied.
    """

    method: str
    path: str
    decode: Callable[[bytes], T_co]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str | None = None
    idempotent: bool = True
    accepted_statuses: tuple[int, ...] = ()
    result_if_gone: T_co | None = None
