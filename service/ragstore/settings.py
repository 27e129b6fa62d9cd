"""The service's settings: one frozen struct, read from `RAGSTORE_*` environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec

from ragstore.chroma.collection_config import SYNC_THRESHOLD

PREFIX = "RAGSTORE_"


ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
"""A web origin. `*` is none: who means every page in the world shall not say so by one character."""

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


URL_VARIABLE: Final = "RAGSTORE_URL"
KEY_VARIABLE: Final = "RAGSTORE_API_KEY"
SOURCE_KEY_VARIABLE: Final = "RAGSTORE_SOURCE_API_KEY"
TARGET_KEY_VARIABLE: Final = "RAGSTORE_TARGET_API_KEY"
CALLERS: Final = frozenset({URL_VARIABLE, KEY_VARIABLE, SOURCE_KEY_VARIABLE, TARGET_KEY_VARIABLE})
"""Variables for those who call a service: clients, and the commands that move collections. None is a setting of it."""


class SettingsError(Exception):
    """A setting is wrong. The text is one line and names the variable."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set. Each field is read from `RAGSTORE_` and its name in capitals.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        data_path: folder of embedded Chroma; not used when `chroma_url` is set.
        chroma_url: address of a Chroma server (`http://` or `https://`); empty means embedded Chroma.
        chroma_tenant: Chroma tenant.
        chroma_database: Chroma database.
        chroma_token: token for Chroma, sent as `Authorization: Bearer` and as `X-Chroma-Token`.
        chroma_headers: further headers for Chroma, as a JSON object.
        chroma_ca_file: file of certificate authorities to trust for an `https://` Chroma; empty means the system's.
        chroma_timeout_seconds: longest wait for one answer of Chroma.
        chroma_connections: most connections to a Chroma server at once.
        request_timeout_seconds: longest time for one request; its head and its body must have come within it. A stream
            has it for each line and for each batch.
        max_requests: most requests under way at once; a further one is 503.
        max_body_bytes: largest request body, or line of a stream; a larger one is 413.
        max_batch_size: most documents in one write; Chroma's own limit applies where it is lower.
        sync_threshold: writes to a collection after which Chroma saves its index; for collections that are created from
            then on. Less makes single writes faster, and it likelier that a kill of Chroma finds it saving.
        coalescing: whether requests that wait at the same time leave for Chroma as one.
        planning: whether a filtered query may be asked without its filter, which is then applied here.
        queued_writes: most writes that wait for Chroma; a further one is 503.
        queued_bytes: most bytes of embeddings and texts that wait for Chroma; what exceeds them is 503.
        keys_file: file of the keys that callers need, made by `ragstore keys new`; empty means that they need none.
        allow_open: whether to listen without keys on an address that other machines reach.
        cors_origins: web origins whose pages may call the service, separated by commas; empty means none.
        rate_limit: requests a minute for each key, or for all callers together without keys; 0 means no limit.
        shutdown_seconds: time that running requests get when the service stops.
        log_level: least level that is logged.
        log_format: `json`, `console`, or `auto`: console on a terminal, JSON elsewhere.
    """

    host: str = "127.0.0.1"
    port: Port = 8080
    data_path: str = "./data"
    chroma_url: str = ""
    chroma_tenant: Annotated[str, msgspec.Meta(min_length=3)] = "default_tenant"
    chroma_database: Annotated[str, msgspec.Meta(min_length=3)] = "default_database"
    chroma_token: str = ""
    chroma_headers: dict[str, str] = {}
    chroma_ca_file: str = ""
    chroma_timeout_seconds: Seconds = 30.0
    chroma_connections: Count = 64
    request_timeout_seconds: Seconds = 30.0
    max_requests: Count = 512
    max_body_bytes: Count = 64 * 1024 * 1024
    max_batch_size: Count = 5461
    sync_threshold: Annotated[int, msgspec.Meta(ge=3)] = SYNC_THRESHOLD
    coalescing: bool = True
    planning: bool = True
    queued_writes: Count = 1024
    queued_bytes: Count = 256 * 1024 * 1024
    keys_file: str = ""
    allow_open: bool = False
    cors_origins: str = ""
    rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 0
    shutdown_seconds: Count = 20
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"

    @property
    def store(self) -> Literal["embedded", "remote"]:
        """Which kind of Chroma is used."""
        return "remote" if self.chroma_url else "embedded"

    @property
    def origins(self) -> list[str]:
        """The web origins whose pages may call the service."""
        return [origin.strip() for origin in self.cors_origins.split(",") if origin.strip()]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the service. A name other than `localhost` may stand for any address."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def shown(self) -> dict[str, str]:
        """The settings in force, for a person to read.

        Returns:
            Variable names with their values as text; secrets are masked.
        """
        values = {variable(name): str(getattr(self, name)) for name in self.__struct_fields__}
        if self.chroma_token:
            values[variable("chroma_token")] = "***"
        masked = dict.fromkeys(self.chroma_headers, "***")
        values[variable("chroma_headers")] = msgspec.json.encode(masked).decode()
        values[variable("chroma_url")] = without_password(self.chroma_url)
        return values


def variable(field: str) -> str:
    """The environment variable of a settings field."""
    return PREFIX + field.upper()


def without_password(url: str) -> str:
    """A URL without the user and password that it may carry."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]).geturl()


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Args:
        environ: the variables to read; the process's own when None.

    Returns:
        The settings. An empty variable counts as not set.

    Raises:
        SettingsError: a variable has a value that its setting does not take.
    """
    environ = os.environ if environ is None else environ
    given = {
        field: _read(variable(field), field, environ[variable(field)])
        for field in Settings.__struct_fields__
        if environ.get(variable(field))
    }
    settings = msgspec.convert(given, Settings)
    _check(settings)
    return settings


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """Variables that look like settings and are none.

    They do not stop the start: Kubernetes makes such variables for a Service named `ragstore`. They may be a typing
    error, so they are shown.

    Args:
        environ: the variables to read; the process's own when None.

    Returns:
        Their names, sorted.
    """
    environ = os.environ if environ is None else environ
    known = {variable(field) for field in Settings.__struct_fields__} | CALLERS
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def _read(name: str, field: str, value: str) -> object:
    """One variable's value in its field's type."""
    kind = next(info.type for info in msgspec.structs.fields(Settings) if info.name == field)
    try:
        if field == "chroma_headers":
            return msgspec.json.decode(value, type=dict[str, str])
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{name} is wrong: {error}") from None
    except msgspec.DecodeError:
        raise SettingsError(f"{name} is wrong: it must be a JSON object of strings") from None


def _check(settings: Settings) -> None:
    """What one field's type cannot say."""
    if settings.chroma_url:
        try:
            parts = urlsplit(settings.chroma_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise SettingsError(f"{variable('chroma_url')} is wrong: it must be an http:// or https:// address")
    if settings.chroma_ca_file and not Path(settings.chroma_ca_file).is_file():
        raise SettingsError(f"{variable('chroma_ca_file')} is wrong: there is no such file")
    if not all(ORIGIN.fullmatch(origin) for origin in settings.origins):
        raise SettingsError(
            f"{variable('cors_origins')} is wrong: each must be an origin such as https://app.example, without a path"
        )
    if any("\n" in text or "\r" in text for pair in settings.chroma_headers.items() for text in pair):
        raise SettingsError(f"{variable('chroma_headers')} is wrong: a header must not hold a line break")
