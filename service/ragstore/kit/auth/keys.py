"""API keys, and the file that holds them.

The file has one key per line, as JSON. Empty lines and lines that begin with `#` are ignored. A key has a
scope for each service that it is for:

    {"name": "ingest", "sha256": "9f86...", "scopes": {"store": {"role": "writer"}, "gateway": {"role": "user"}}}

A service ignores the scopes of others; a key without a scope for it gets 403. One service may own the older form, in
which the fields of its scope are next to the name:

    {"name": "ingest", "role": "writer", "sha256": "9f86...", "collections": ["repo_*"], "created": "2026-11-21"}

The file holds no plain key. A key is 256 random bits, so SHA-256 is enough: password hashes are slow because passwords
can be guessed, and 2**256 keys cannot. A slow hash would only let callers spend the service's time.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar, get_args

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

PREFIX: Final = "rsk_"
"""Begins every key, so that secret scanners can recognize one."""

RELOAD_SECONDS: Final = 1.0
"""Interval at which the file is checked for changes."""

_log = structlog.get_logger(__name__)


class KeysError(Exception):
    """The file of keys cannot be used. The text is one line, and holds no key and no hash."""


class KeyScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The rights of a key in one service.

    A service subclasses it and narrows `role` to a `Literal` of its roles, in which each role includes those before it.

    Attributes:
        role: what the key may do.
    """

    role: str


S = TypeVar("S", bound=KeyScope)


@dataclass(frozen=True)
class KeyFormat(Generic[S]):
    """How one service reads and writes the file.

    Attributes:
        service: name of the service under `scopes`.
        scope: its scopes.
        owns_flat_form: whether keys in the older form, without `scopes`, are for this service.
    """

    service: str
    scope: type[S]
    owns_flat_form: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """The service's roles, each of which includes those before it."""
        return get_args(next(field.type for field in msgspec.structs.fields(self.scope) if field.name == "role"))


@dataclass(frozen=True, slots=True)
class Key(Generic[S]):
    """A key as one service sees it.

    Attributes:
        name: identifies the key, also in the audit log.
        sha256: hash of the plain key, in hexadecimal.
        scope: what it may do in this service; None when nothing.
        created: day of its creation.
    """

    name: str
    sha256: str
    scope: S | None
    created: str = ""


class _Entry(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The fields of a key that belong to no service."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    created: str = ""
    scopes: dict[str, msgspec.Raw] | UnsetType = UNSET


def digest_of(plain: bytes) -> bytes:
    """The SHA-256 of a plain key."""
    return hashlib.sha256(plain).digest()


def new_key(name: str, format_: KeyFormat[S], **scope: object) -> tuple[str, Key[S]]:
    """Make a key.

    Args:
        format_: the service that it is for.
        scope: the fields of its scope.

    Returns:
        The plain key, which is stored nowhere, and what the file holds of it.

    Raises:
        KeysError: the name or a field is not valid.
    """
    plain = PREFIX + secrets.token_urlsafe(32)
    entry = {"name": name, "sha256": digest_of(plain.encode()).hex(), "created": datetime.now(UTC).date().isoformat()}
    try:
        checked = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        raise KeysError(str(error)) from None
    return plain, Key(checked.name, checked.sha256, new_scope(format_, **scope), checked.created)


def _encoded(key: Key[S], format_: KeyFormat[S], others: Mapping[str, KeyScope] | None) -> bytes:
    scope = msgspec.to_builtins(key.scope)
    entry: dict[str, Any] = {"name": key.name, "sha256": key.sha256}
    if format_.owns_flat_form and not others:
        entry = {"name": key.name, "role": scope.pop("role"), "sha256": key.sha256, **scope}
    else:
        entry["scopes"] = {format_.service: scope, **msgspec.to_builtins(others or {})}
    return msgspec.json.encode({**entry, "created": key.created})


def _decoded(line: str, format_: KeyFormat[S]) -> Key[S]:
    """Decode a line.

    Raises:
        msgspec.DecodeError: it is not valid.
    """
    fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    own = {name: fields.pop(name) for name in _Entry.__struct_fields__ if name in fields}
    entry = msgspec.json.decode(msgspec.json.encode(own), type=_Entry)
    scope: bytes | msgspec.Raw | None
    if entry.scopes is UNSET:
        flat = msgspec.json.encode(fields)
        if not format_.owns_flat_form and "role" not in fields:
            raise msgspec.ValidationError("Object missing required field `scopes`")
        scope = flat if format_.owns_flat_form else None
    else:
        if fields:
            raise msgspec.ValidationError(f"Object contains unknown field `{next(iter(fields))}`")
        scope = entry.scopes.get(format_.service)
    decoded = None if scope is None else msgspec.json.decode(scope, type=format_.scope)
    return Key(entry.name, entry.sha256, decoded, entry.created)


def read_keys(path: str, format_: KeyFormat[S]) -> list[Key[S]]:
    """Read a file of keys.

    Args:
        path: the file.
        format_: the service that reads it.

    Returns:
        The keys in the order of the file.

    Raises:
        KeysError: the file cannot be read, a line is not valid, or a name or a hash is repeated.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():
            # Reading a pipe would never end.
            raise KeysError(f"{path}: it is not a file")
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise KeysError(f"{path}: {reason}") from None
    keys: list[Key[S]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = _decoded(line, format_)
        except msgspec.ValidationError as error:
            raise KeysError(f"{path}, line {number}: {error}") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise KeysError(f"{path}, line {number}: it is not JSON") from None
        if any(key.name == other.name or key.sha256 == other.sha256 for other in keys):
            raise KeysError(f"{path}, line {number}: the name '{key.name}' or its hash is repeated")
        keys.append(key)
    return keys


def new_scope(format_: KeyFormat[S], **fields: object) -> S:
    """Make a scope.

    Args:
        format_: the service that it is for.

    Raises:
        KeysError: a field is not valid.
    """
    try:
        return msgspec.convert(fields, format_.scope, strict=False)
    except msgspec.ValidationError as error:
        raise KeysError(str(error)) from None


def append_key(path: str, key: Key[S], format_: KeyFormat[S], others: Mapping[str, KeyScope] | None = None) -> None:
    """Append a key to a file, which is created if it does not exist.

    Args:
        path: the file.
        format_: the service that the key is for.
        others: its scopes in further services, by their names.

    Raises:
        KeysError: the file cannot be written, is not valid, or has a key of that name.
    """
    present = read_keys(path, format_) if Path(path).exists() else []
    if any(key.name == other.name for other in present):
        raise KeysError(f"{path}: a key of the name '{key.name}' exists already")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a+b") as file:
            file.seek(0)
            line = _encoded(key, format_, others) + b"\n"
            file.write(line if file.read()[-1:] in (b"", b"\n") else b"\n" + line)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from None


def remove_key(path: str, name: str, format_: KeyFormat[S]) -> None:
    """Remove a key from a file, whose other lines stay as they are.

    The file is replaced by a complete one with the same permissions: a running service never reads a part of it.

    Args:
        path: the file.
        name: the key's name.
        format_: the service that reads the file.

    Raises:
        KeysError: the file cannot be read or written, is not valid, or has no key of that name.
    """
    if not any(key.name == name for key in read_keys(path, format_)):
        raise KeysError(f"{path}: there is no key of the name '{name}'")
    target = Path(path).resolve()
    kept = [line for line in target.read_text(encoding="utf-8").splitlines(keepends=True) if _name_of(line) != name]
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        status = target.stat()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(kept)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(status.st_mode))
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temporary, status.st_uid, status.st_gid)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise KeysError(f"{path}: {error.strerror}") from None


class _Named(msgspec.Struct):
    """The name in a line of a file of keys."""

    name: str


def _name_of(line: str) -> str:
    """The name of the key in a line; empty for a comment or an empty line."""
    return "" if not line.strip() or line.lstrip().startswith("#") else msgspec.json.decode(line, type=_Named).name


def _accept(_: object) -> str:
    return ""


class KeyRing(Generic[S]):
    """The keys in force. They follow their file while the service runs.

    Args:
        path: the file.
        format_: the service that reads it.
        objection: why a scope cannot be used here, as the rest of a sentence that begins with the key; empty if it can.

    Raises:
        KeysError: the file cannot be used.
    """

    def __init__(self, path: str, format_: KeyFormat[S], objection: Callable[[S], str] = _accept) -> None:
        self._path = path
        self._format = format_
        self._objection = objection
        self._seen = self._signature()
        self._keys = self._read()

    def __len__(self) -> int:
        return len(self._keys)

    def is_current(self, key: Key[S]) -> bool:
        """Whether a key that was found before is still in force, with the same rights."""
        return self._keys.get(bytes.fromhex(key.sha256), (b"", None))[1] == key

    def find(self, plain: bytes) -> Key[S] | None:
        """Look a key up.

        The lookup is by hash. A caller cannot steer a hash towards another key's hash, so the time of the lookup
        reveals nothing. The comparison that decides takes the same time for any input.

        Args:
            plain: what the caller sent.

        Returns:
            The key, or None.
        """
        digest = digest_of(plain)
        known, key = self._keys.get(digest, (b"", None))
        return key if hmac.compare_digest(known, digest) else None

    def find_by_name(self, name: str) -> Key[S] | None:
        """Look up a key that another service of this process has found.

        Args:
            name: the name of the key.

        Returns:
            The key as this service sees it; None if there is none, or if several have the name.
        """
        found = [key for _, key in self._keys.values() if key.name == name]
        return found[0] if len(found) == 1 else None

    @asynccontextmanager
    async def watched(self, _: object = None) -> AsyncIterator[None]:
        """Follow the file while the block runs."""
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
            # The file may be on a network, so it is read in a thread.
            await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        """Reload the file if it has changed; if it cannot be used, log that once and keep the previous keys."""
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
        """Changes when the file does. Symbolic links are followed: Kubernetes swaps one of them."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _read(self) -> dict[bytes, tuple[bytes, Key[S]]]:
        keys = read_keys(self._path, self._format)
        for key in keys:
            objection = "" if key.scope is None else self._objection(key.scope)
            if objection:
                raise KeysError(f"{self._path}: the key '{key.name}' {objection}")
        if not keys:
            # More likely cut off than meant: it would lock all callers out.
            raise KeysError(f"{self._path}: there is no key in it")
        return {bytes.fromhex(key.sha256): (bytes.fromhex(key.sha256), key) for key in keys}
