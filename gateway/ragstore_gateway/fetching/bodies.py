"""Reads bodies within limits of their size, as sent and decompressed."""

from __future__ import annotations

import zlib
from typing import Final, Protocol

import aiohttp

from ragstore.kit.time_slices import rest_if_large
from ragstore_gateway.fetching.errors import ResponseInvalid, ResponseTooLarge

ACCEPT_ENCODING: Final = "gzip, deflate"
"""The encodings that `read_body` decodes."""

_GZIP_WBITS: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZLIB_METHOD: Final = 8


class _Decoder(Protocol):
    @property
    def complete(self) -> bool:
        """Whether the end of the data was read."""

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        """Decode a chunk, to no more than about `max_bytes`."""


class _Identity:
    complete = True

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        return data


class _Gzip:
    """Data in the format of gzip, which may have several members."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP_WBITS)
        self._rest = b""

    @property
    def complete(self) -> bool:
        return self._inner.eof

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        decoded = bytearray()
        data = self._rest + data
        self._rest = b""
        while data and len(decoded) < max_bytes:
            if self._inner.eof:
                if len(data) < len(_GZIP_MAGIC):
                    self._rest = data
                    break
                if not data.startswith(_GZIP_MAGIC):
                    # Servers append zeros and the like.
                    break
                self._inner = zlib.decompressobj(_GZIP_WBITS)
            decoded += self._inner.decompress(data, max_bytes - len(decoded))
            data = self._inner.unused_data
        return bytes(decoded)


class _Deflate:
    """Data in the format of zlib, as the standard has it, or without its head, as some servers send it."""

    def __init__(self) -> None:
        self._inner: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        return self._inner is not None and self._inner.eof

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        if self._inner is None:
            if not data:
                return b""
            has_head = data[0] & 0x0F == _ZLIB_METHOD
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS)
        return b"" if self._inner.eof else self._inner.decompress(data, max_bytes)


async def read_body(response: aiohttp.ClientResponse, max_bytes: int, *, truncate: bool = False) -> bytes:
    """Read a body, and decompress it.

    Args:
        max_bytes: maximum size of the body, as sent and decompressed.
        truncate: whether a larger body is cut there instead of being an error.

    Raises:
        ResponseTooLarge: it is larger.
        ResponseInvalid: it breaks off, or cannot be decoded.
    """
    decoder = _decoder(response.headers.getall("Content-Encoding", []))
    announced = response.content_length
    if announced is not None and announced > max_bytes and not truncate:
        raise too_large(max_bytes)
    body = bytearray()
    received = 0
    try:
        async for chunk in response.content.iter_any():
            received += len(chunk)
            # One byte more than allowed shows that there is more.
            body += decoder.decode(chunk, max_bytes + 1 - len(body))
            if max(received, len(body)) > max_bytes:
                if truncate:
                    return bytes(body[:max_bytes])
                raise too_large(max_bytes)
    except zlib.error:
        raise ResponseInvalid("The response's body cannot be decompressed") from None
    except (aiohttp.ClientError, ConnectionError):
        raise ResponseInvalid("The response's body broke off") from None
    if received and not decoder.complete:
        raise ResponseInvalid("The response's body broke off")
    # The copy takes up to 12 ms for 5 MB: the kernel maps its memory page by page.
    await rest_if_large(len(body))
    return bytes(body)


def too_large(max_bytes: int) -> ResponseTooLarge:
    """The error for a body that is too large.

    Args:
        max_bytes: its maximum size.
    """
    return ResponseTooLarge(f"The response has more than {max_bytes} bytes")


def _decoder(headers: list[str]) -> _Decoder:
    encodings = [each.strip().lower() for header in headers for each in header.split(",")]
    match [each for each in encodings if each not in ("", "identity")]:
        case []:
            return _Identity()
        case ["gzip" | "x-gzip"]:
            return _Gzip()
        case ["deflate"]:
            return _Deflate()
        case _:
            raise ResponseInvalid(f"The response's encoding is not {ACCEPT_ENCODING.replace(', ', ' or ')}")
