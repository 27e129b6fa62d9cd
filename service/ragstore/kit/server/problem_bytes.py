"""Responses of the HTTP protocol itself, to requests that no application gets."""

from __future__ import annotations

from http import HTTPStatus

from ragstore.kit.errors import ServiceError
from ragstore.kit.middleware.security_headers import STRICT
from ragstore.kit.problems import MEDIA_TYPE, encode_problem


def response_bytes(error: ServiceError) -> bytes:
    """An error as the bytes of a whole response, which closes the connection."""
    body = encode_problem(error)
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **error.headers}
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode(),
        *(f"{name}: {value}".encode() for name, value in headers.items()),
        *(b"%s: %s" % header for header in STRICT),
        b"connection: close",
    ]
    return b"\r\n".join([*lines, b"", body])
