"""From an HTTP answer to a struct, or to an exception."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

import msgspec

from ragstore_client._call import Call
from ragstore_client._exceptions import FieldError, ProblemError, UnexpectedResponse

T = TypeVar("T")


class _Problem(msgspec.Struct):
    """A problem document (RFC 9457), each member optional as the RFC has it."""

    type: str = "about:blank"
    title: str = ""
    detail: str = ""
    errors: list[FieldError] = []


def json_decoder(type_: type[T]) -> Callable[[bytes], T]:
    """A decoder for one kind of answer.

    Args:
        type_: the struct to read JSON into.

    Returns:
        A function from a body to the struct. It raises `msgspec.DecodeError` or `UnicodeDecodeError`.
    """
    return lambda body: msgspec.json.decode(body, type=type_)


def decode_text(body: bytes) -> str:
    """Read an answer that is text."""
    return body.decode("utf-8")


def parse_response(call: Call[T], status: int, headers: Mapping[str, str], body: bytes) -> T:
    """Read the answer to a call.

    Args:
        call: what was asked.
        status: the HTTP status.
        headers: the answer's headers; names in lower case, or in any case if the mapping minds none.
        body: the body, decompressed.

    Returns:
        The answer.

    Raises:
        ProblemError: the service said no.
        UnexpectedResponse: the body is not what the contract says.
    """
    if 200 <= status < 300:
        return _decode(call.decode, status, body)
    if status in call.accepted_statuses:
        with contextlib.suppress(UnexpectedResponse):
            return _decode(call.decode, status, body)
    raise parse_problem(status, headers, body)


def parse_problem(status: int, headers: Mapping[str, str], body: bytes) -> ProblemError:
    """Read a refusal.

    Args:
        status: the HTTP status.
        headers: the answer's headers, as for `read`.
        body: a problem document, or anything else that a proxy in between may have written.

    Returns:
        The exception to raise.
    """
    try:
        document = msgspec.json.decode(body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = _Problem(title=_phrase(status))
    return ProblemError.class_for(status)(
        status,
        document.title or _phrase(status),
        document.detail,
        document.errors,
        type=document.type,
        request_id=headers.get("x-request-id"),
        retry_after=parse_retry_after(headers.get("retry-after")),
    )


def parse_retry_after(value: str | None) -> float | None:
    """Read a `Retry-After` header.

    Args:
        value: seconds, or an HTTP date.

    Returns:
        Seconds from now, at least 0; None when there is nothing to read.
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _decode(reader: Callable[[bytes], T], status: int, body: bytes) -> T:
    try:
        return reader(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # A ValidationError names types and a path; other texts could repeat the body.
        why = str(error) if isinstance(error, msgspec.ValidationError) else type(error).__name__
        raise UnexpectedResponse(f"HTTP {status} with a body that the contract does not know: {why}", status) from None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"HTTP {status}"
