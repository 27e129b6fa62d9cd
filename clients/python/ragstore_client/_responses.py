"""Parses an HTTP response into a struct, or into an exception."""

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

_NO_RAGSTORE = "what responded is no ragstore service: check the base URL, its port and its path"


class _Problem(msgspec.Struct):
    """A problem document (RFC 9457). Every member is optional, as in the RFC."""

    type: str = "about:blank"
    title: str = ""
    detail: str = ""
    errors: list[FieldError] = []
    errors_omitted: object = 0
    code: object = None  # of any type: other servers send numbers


def json_decoder(type_: type[T]) -> Callable[[bytes], T]:
    """Make a decoder of JSON bodies.

    Args:
        type_: the type to decode into.

    Returns:
        A function that decodes a body. It raises `msgspec.DecodeError` or `UnicodeDecodeError`.
    """
    return lambda body: msgspec.json.decode(body, type=type_)


def decode_text(body: bytes) -> str:
    """Decode a text body."""
    return body.decode("utf-8")


def parse_response(
    call: Call[T], status: int, headers: Mapping[str, str], body: bytes, *, of_ragstore: bool = False
) -> T:
    """Parse the response to a call.

    Args:
        status: the HTTP status.
        headers: the response's headers; names in lower case, unless the mapping ignores case.
        body: the body, decompressed.
        of_ragstore: whether a ragstore service should have sent it.

    Returns:
        The decoded body.

    Raises:
        ProblemError: the service responded with an error.
        UnexpectedResponse: the body does not match the contract.
    """
    if 200 <= status < 300:
        result = _decode(call.decode, status, body)
        return result if call.read_headers is None else _with_headers(call.read_headers, result, status, headers)
    if status in call.accepted_statuses:
        with contextlib.suppress(UnexpectedResponse):
            return _decode(call.decode, status, body)
    raise parse_problem(status, headers, body, of_ragstore=of_ragstore)


def parse_problem(status: int, headers: Mapping[str, str], body: bytes, *, of_ragstore: bool = False) -> ProblemError:
    """Parse an error response.

    Args:
        status: the HTTP status.
        headers: the response's headers, as for `parse_response`.
        body: a problem document, or whatever a proxy has sent in its place.
        of_ragstore: whether a ragstore service should have sent it; the detail then says if something else did.

    Returns:
        The exception to raise.
    """
    try:
        document = msgspec.json.decode(body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = _Problem()
    if of_ragstore and status in (404, 405) and not (document.title or document.code):
        # Each problem document of a ragstore has both. FastAPI's has neither, and Chroma's is FastAPI's or empty.
        document.title, document.detail = _reason_phrase(status), _NO_RAGSTORE
    return ProblemError.class_for(status)(
        status,
        document.title or _reason_phrase(status),
        document.detail,
        document.errors,
        errors_omitted=document.errors_omitted if isinstance(document.errors_omitted, int) else 0,
        code=document.code if isinstance(document.code, str) else None,
        type=document.type,
        request_id=headers.get("x-request-id"),
        retry_after=parse_retry_after(headers.get("retry-after")),
    )


def parse_retry_after(value: str | None) -> float | None:
    """Parse a `Retry-After` header.

    Args:
        value: seconds, or an HTTP date.

    Returns:
        Seconds from now, at least 0; None when there is no valid header.
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


def _decode(decode: Callable[[bytes], T], status: int, body: bytes) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # A ValidationError names types and a path; the text of other errors could repeat the body.
        reason = str(error) if isinstance(error, msgspec.ValidationError) else type(error).__name__
        raise UnexpectedResponse(
            f"HTTP {status} with a body that does not match the contract: {reason}; is this a ragstore service?", status
        ) from None


def _with_headers(
    read_headers: Callable[[T, Mapping[str, str]], T], result: T, status: int, headers: Mapping[str, str]
) -> T:
    try:
        return read_headers(result, headers)
    except ValueError:
        raise UnexpectedResponse(
            f"HTTP {status} with headers that do not match the contract; is this a ragstore service?", status
        ) from None


def _reason_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"HTTP {status}"
