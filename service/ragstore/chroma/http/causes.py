"""Why a Chroma server cannot be reached, for its operator.

The errors of aiohttp, the operating system and OpenSSL name hosts, ports and certificates; none has content.
"""

from __future__ import annotations

import ssl
from typing import Final

import aiohttp

PLAIN_PORT: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING")
"""OpenSSL's reasons when the other side does not speak TLS."""


def connection_cause(error: aiohttp.ClientError, address: str) -> str:
    """Why a request got no response.

    Args:
        error: aiohttp's error.
        address: the server's scheme, host and port.

    Returns:
        The cause, in one line.
    """
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{address}: the name cannot be resolved ({error.os_error.strerror or error.os_error})"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{address}: the certificate is not trusted ({_certificate_reason(error.certificate_error)})"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        reason = getattr(error.os_error, "reason", "") or type(error.os_error).__name__
        hint = "; the port may be one for http://" if reason in PLAIN_PORT else ""
        return f"{address}: the TLS handshake failed ({reason}){hint}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{address}: no connection ({_system_reason(error.os_error)})"
    hint = "; if it always does, the port may be one for https://" if address.startswith("http:") else ""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return f"{address}: the server closed the connection without a response{hint}"
    if isinstance(error, aiohttp.ClientOSError):
        return f"{address}: the connection broke ({_system_reason(error)}){hint}"
    return f"{address}: the response is not valid HTTP ({type(error).__name__})"


def response_cause(address: str, path: str, status: int, media_type: str) -> str:
    """Why a response is not one of Chroma.

    Args:
        address: the server's scheme, host and port.
        path: path of the request, from the root.
        status: status of the response.
        media_type: its `Content-Type`.

    Returns:
        The cause, in one line.
    """
    got = f"{address}: {path} returned {status} with {media_type or 'no content'}"
    if status in (401, 403):
        return f"{got}: the credentials are missing or wrong"
    if status == 407:
        return f"{got}: a proxy requires credentials"
    if 300 <= status < 400:
        return f"{got}: a redirect, which is not followed; set the address that it names"
    if status in (502, 503, 504):
        return f"{got}: a proxy, or Chroma itself, is overloaded or has no server behind it"
    return f"{got}: not a Chroma server of version 1, or a wrong path"


def _certificate_reason(error: Exception) -> str:
    """OpenSSL's reason, such as "self-signed certificate"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return type(error).__name__


def _system_reason(error: OSError) -> str:
    """The operating system's reason, such as "Connection refused"."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens on this port"
    return error.strerror or type(error).__name__
