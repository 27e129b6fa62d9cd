"""Keys, and the file that holds them.

The file has one key a line, as JSON; empty lines and lines that begin with `#` are passed over:

    {"name": "ingest", "role": "writer", "sha256": "9f86...", "collections": ["repo_*"], "created": "2026-11-21"}

It holds no plain key. A key is 256 random bits, so SHA-256 is enough: what makes password hashes slow is that passwords
can be guessed, and 2**256 keys cannot. A fast hash leaves the service nothing that callers can make it spend time on.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
import structlog

Role: TypeAlias = Literal["reader", "writer", "admin"]

ROLES: Final[tuple[Role, ...]] = ("reader", "writer", "admin")
"""Each may do what those before it may."""

PREFIX: Final = "rsk_"
"""Begins every key, so that scanners for secrets can tell one."""

RELOAD_SECONDS: Final = 1.0
"""How often the file is looked at."""

_log = structlog.get_logger(__name__)

_PlaceName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(?:[^\s/]{3,512})?\Z")]
"""A Chroma tenant or database, or nothing."""


class KeysError(Exception):
    """The file of keys cannot be used. The text is one line, and holds no key and no hash."""


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A key as the file holds it.

    Attributes:
        name: tells it from others, in the audit trail too.
        role: what it may do.
        sha256: hash of the plain key, in hexadecimal.
        collections: patterns such as `repo_*`; only collections that one of them fits exist for it. All when None.
        tenant: Chroma tenant of its own; the service's when empty.
        database: Chroma database of its own; the service's when empty.
        created: the day it was made.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")]
    role: Role
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    collections: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] | None = None
    tenant: _PlaceName = ""
    database: _PlaceName = ""
    created: str = ""


def digest_of(plain: bytes) -> bytes:
    """The SHA-256 of a plain key."""
    return hashlib.sha256(plain).digest()


def new_key(
    name: str, role: Role, collections: Iterable[str] = (), tenant: str = "", database: str = ""
) -> tuple[str, Key]:
    """Make a key.

    Args:
        name: its name.
        role: its role.
        collections: patterns of the collections that exist for it; all when there are none.
        tenant: Chroma tenant of its own.
        database: Chroma database of its own.

    Returns:
        The plain key, which is kept nowhere, and what the file holds of it.

    Raises:
        KeysError: the name, the tenant or the database cannot be one.
    """
    plain = PREFIX + secrets.token_urlsafe(32)
    described = {
        "name": name,
        "role": role,
        "sha256": digest_of(plain.encode()).hex(),
        "collections": tuple(collections) or None,
        "tenant": tenant,
        "database": database,
        "created": datetime.now(UTC).date().isoformat(),
    }
    try:
        return plain, msgspec.convert(described, Key)
    except msgspec.ValidationError as error:
        raise KeysError(str(error)) from None


def read_keys(path: str) -> list[Key]:
    """Read a file of keys.

    Args:
        path: the file.

    Returns:
        Its keys, in their order.

    Raises:
        KeysError: it cannot be read, a line is wrong, or a name or a hash comes twice.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise KeysError(f"{path}: {reason}") from None
    keys: list[Key] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = msgspec.json.decode(line, type=Key)
        except msgspec.ValidationError as error:
            raise KeysError(f"{path}, line {number}: {error}") from None
        except (msgspec.DecodeError, UnicodeError):
            raise KeysError(f"{path}, line {number}: it is no JSON") from None
        if any(key.name == other.name or key.sha256 == other.sha256 for other in keys):
            raise KeysError(f"{path}, line {number}: the name '{key.name}' or its hash is there already")
        keys.append(key)
    return keys


def append_key(path: str, key: Key) -> None:
    """Write a key at the end of a file, which is made when it is not there.

    Args:
        path: the file.
        key: the key.

    Raises:
        KeysError: the file cannot be written, is wrong as it stands, or has a key of that name.
    """
    present = read_keys(path) if Path(path).exists() else []
    if any(key.name == other.name for other in present):
        raise KeysError(f"{path}: there is a key of the name '{key.name}' already")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a+b") as file:
            file.seek(0)
            line = msgspec.json.encode(key) + b"\n"
            file.write(line if file.read()[-1:] in (b"", b"\n") else b"\n" + line)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from None


class KeyRing:
    """The keys in force. They follow their file while the service runs.

    Args:
        path: the file.
        own_places: whether keys may have a Chroma tenant and database of their own.

    Raises:
        KeysError: the file cannot be used.
    """

    def __init__(self, path: str, *, own_places: bool) -> None:
        self._path = path
        self._own_places = own_places
        self._seen = self._signature()
        self._keys = self._read()

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, plain: bytes) -> Key | None:
        """The key that a caller shows.

        What is looked up is a hash, whose bytes no caller can steer towards those of another, so the time of the lookup
        tells nothing; the comparison that decides takes the same time whatever it is given.

        Args:
            plain: what the caller sent.

        Returns:
            The key, or None when there is none like it.
        """
        digest = digest_of(plain)
        known, key = self._keys.get(digest, (b"", None))
        return key if hmac.compare_digest(known, digest) else None

    @asynccontextmanager
    async def watched(self, _: object = None) -> AsyncIterator[None]:
        """Follow the file as long as the block runs."""
        watch = asyncio.create_task(self._watch(), name="watch-keys")
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            # The file may be on a network, so it is read beside the event loop.
            await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        """Take the file's new keys; when it cannot be used, say so once and keep those that were."""
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._keys = self._read()
        except KeysError as error:
            _log.error("keys not reloaded", reason=str(error), kept=len(self._keys))
        else:
            _log.info("keys reloaded", keys=len(self._keys))

    def _signature(self) -> tuple[int, ...]:
        """What changes when the file does. Symbolic links are followed: Kubernetes swaps one of them."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _read(self) -> dict[bytes, tuple[bytes, Key]]:
        keys = read_keys(self._path)
        placed = [key.name for key in keys if key.tenant or key.database]
        if placed and not self._own_places:
            # All of embedded Chroma is one process, which is opened for one tenant and one database.
            raise KeysError(
                f"{self._path}: the key '{placed[0]}' has a tenant or database of its own, "
                "which needs RAGSTORE_CHROMA_URL"
            )
        return {bytes.fromhex(key.sha256): (bytes.fromhex(key.sha256), key) for key in keys}
