"""Secrets in HashiCorp Vault or OpenBao: `${vault:PATH#FIELD}`, from a key-value engine, version 2.

Without `#FIELD`, the last part of the path is the field, so that `${eddivault:tenant/agent/openai-key}` reads the field
`openai-key` of `tenant/agent`.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import Final

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from ragstore_gateway.errors import SecretUnavailable, VaultUnavailable
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.secret_references import MAX_SECRET_BYTES

CACHE_SECONDS: Final = 30.0
"""How long a secret is kept: a rotated one is used after this time."""

TIMEOUT_SECONDS: Final = 5.0
MAX_CACHED: Final = 1000

_PATH: Final = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")


class _Data(Struct):
    data: dict[str, str | int | float | bool | None]


class _Response(Struct):
    data: _Data


_decoder = msgspec.json.Decoder(_Response)


class VaultSource:
    """Reads secrets of a Vault server; see `SecretSource`.

    Args:
        connections: the pool.
        url: the server's address.
        token: the token of this service.
        mount: path of the key-value engine.
    """

    def __init__(self, connections: Connections, url: str, token: str, mount: str = "secret") -> None:
        self._connections = connections
        self._base = f"{url.rstrip('/')}/v1/{mount.strip('/')}/data/"
        self._token = token
        self._cached: dict[str, tuple[float, str]] = {}

    async def read(self, name: str) -> str:
        """Read a secret; see `SecretSource`."""
        kept = self._cached.get(name)
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        if reason := self.never_readable(name):
            raise SecretUnavailable(reason)
        path, field = _path_and_field(name)
        value = await self._fetch(path, field, name)
        if len(self._cached) >= MAX_CACHED:
            self._cached.clear()
        self._cached[name] = (time.monotonic() + CACHE_SECONDS, value)
        return value

    def never_readable(self, name: str) -> str:
        """Whether there can be no such secret; see `SecretSource`."""
        path, field = _path_and_field(name)
        if _PATH.fullmatch(path) and ".." not in path.split("/") and field:
            return ""
        return f"The reference ${{vault:{name}}} needs a path and a field: PATH#FIELD"

    async def _fetch(self, path: str, field: str, name: str) -> str:
        headers = {"X-Vault-Token": self._token, "X-Vault-Request": "true"}
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                self._connections.session.get(
                    URL(self._base + path, encoded=True), headers=headers, allow_redirects=False
                ) as response,
            ):
                if response.status != 200:
                    kind = VaultUnavailable if response.status >= 500 or response.status == 429 else SecretUnavailable
                    raise kind(f"Vault responded with status {response.status} to ${{vault:{name}}}")
                content = await response.content.read(MAX_SECRET_BYTES + 1)
                while len(content) <= MAX_SECRET_BYTES and (more := await response.content.read(MAX_SECRET_BYTES)):
                    content += more
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise VaultUnavailable(f"Vault cannot be reached: {type(error).__name__}") from None
        try:
            value = _decoder.decode(content).data.data.get(field)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            value = None
        if not isinstance(value, str) or not value:
            raise SecretUnavailable(f"Vault has no such field: ${{vault:{name}}}")
        return value


def _path_and_field(name: str) -> tuple[str, str]:
    path, hash_, field = name.partition("#")
    if not hash_:
        path, _, field = name.rpartition("/")
    return path, field
