"""The store's settings: one frozen struct, read from `RAGSTORE_*` environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec

from ragstore.chroma.collection_config import SYNC_THRESHOLD
from ragstore.chroma.quotas import QUOTAS
from ragstore.kit import settings as kit_settings
from ragstore.kit.settings import SECRET, SECRET_USERINFO, Count, Seconds, ServerSettings, SettingsError

PREFIX: Final = "RAGSTORE_"
GATEWAY_PREFIX: Final = "RAGSTORE_GATEWAY_"
"""Begins the variables of the gateway, which may run in the same environment."""

URL_VARIABLE: Final = "RAGSTORE_URL"
KEY_VARIABLE: Final = "RAGSTORE_API_KEY"
SOURCE_KEY_VARIABLE: Final = "RAGSTORE_SOURCE_API_KEY"
TARGET_KEY_VARIABLE: Final = "RAGSTORE_TARGET_API_KEY"
CALLERS: Final = frozenset({URL_VARIABLE, KEY_VARIABLE, SOURCE_KEY_VARIABLE, TARGET_KEY_VARIABLE})
"""Variables of clients, and of the commands that move collections. None is a setting of the service."""


NOTHING_RESERVED: Final = "none"
"""Value of `reserved_prefixes`: an empty variable counts as not set."""

RESERVED_PREFIX: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,14}[._-]")
"""A reserved prefix ends in a separator, so that it is no part of a word."""


class Settings(ServerSettings, frozen=True, kw_only=True):
    """Everything that can be set. Each field is read from `RAGSTORE_` and its name in capitals.

    Attributes:
        keys_file: file of the keys that callers need, made by `ragstore keys new`; empty means that they need none.
        data_path: folder of embedded Chroma; not used when `RAGSTORE_CHROMA_URL` is set.
        chroma_url: address of a Chroma server (`http://` or `https://`); empty means embedded Chroma.
        chroma_tenant: Chroma tenant.
        chroma_database: Chroma database.
        chroma_token: token for Chroma, sent as `Authorization: Bearer` and as `X-Chroma-Token`.
        chroma_headers: further headers for Chroma, as a JSON object.
        chroma_ca_file: file of certificate authorities to trust for an `https://` Chroma; empty means the system's.
        chroma_timeout_seconds: longest wait for one response of Chroma.
        chroma_connections: maximum number of connections to a Chroma server.
        chroma_quotas: quotas of Chroma, as a JSON object. `write` and `read` are maximum numbers of records, `ids` of
            ids, `predicates` of comparisons in a filter; `text_bytes` and `id_bytes` are maximum sizes. The first three
            are learned from Chroma's rejections if they are not set.
        max_batch_size: maximum number of documents in one write; Chroma's own limit applies where it is lower.
        sync_threshold: writes to a collection after which Chroma saves its index; for collections that are created from
            then on. Lower values make single writes faster, and make it more likely that a kill interrupts a save.
        coalescing: whether requests that wait at the same time leave for Chroma as one.
        planning: whether a filtered query may be sent without its filter, which is then applied here.
        max_collections: maximum number of collections in a database of Chroma; creating another one is 403. Each that
            is used takes 2.6 MiB of Chroma's memory and four of its open files.
        reserved_prefixes: prefixes of collections that only the gateway writes, separated by commas; `none` for none.
            See [collections of the gateway](security.md#collections-of-the-gateway).
        embedded_memory_bytes: memory of embedded Chroma's process above which it is restarted, so that it unloads the
            collections that are not used; 0 means 60 % of the container's memory limit, and no limit without one.
        index_sample_every: number of queries after which some documents are looked for by their own embedding, for
            `ragstore_index_samples_total`; 0 means never.
        queued_writes: maximum number of writes that wait for Chroma; a further one is 503.
        queued_bytes: maximum size in bytes of embeddings and texts that wait for Chroma; what exceeds them is 503.
        ui: whether [the page](page.md) is served at `/ui/`.
    """

    data_path: str = "./data"
    chroma_url: Annotated[str, SECRET_USERINFO] = ""
    chroma_tenant: Annotated[str, msgspec.Meta(min_length=3)] = "default_tenant"
    chroma_database: Annotated[str, msgspec.Meta(min_length=3)] = "default_database"
    chroma_token: Annotated[str, SECRET] = ""
    chroma_headers: Annotated[dict[str, str], SECRET] = {}
    chroma_ca_file: str = ""
    chroma_timeout_seconds: Seconds = 30.0
    chroma_connections: Count = 64
    chroma_quotas: dict[str, Count] = {}
    max_batch_size: Count = 5461
    sync_threshold: Annotated[int, msgspec.Meta(ge=3)] = SYNC_THRESHOLD
    coalescing: bool = True
    planning: bool = True
    max_collections: Count = 10_000
    reserved_prefixes: str = "kb_"
    embedded_memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    index_sample_every: Annotated[int, msgspec.Meta(ge=0)] = 1000
    queued_writes: Count = 1024
    queued_bytes: Count = 256 * 1024 * 1024
    ui: bool = True

    @property
    def reserved(self) -> tuple[str, ...]:
        """The reserved prefixes."""
        if self.reserved_prefixes == NOTHING_RESERVED:
            return ()
        return tuple(prefix.strip() for prefix in self.reserved_prefixes.split(","))

    @property
    def store(self) -> Literal["embedded", "remote"]:
        """The kind of Chroma that is used."""
        return "remote" if self.chroma_url else "embedded"


def variable(field: str) -> str:
    """The environment variable of a settings field."""
    return kit_settings.variable(PREFIX, field)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Args:
        environ: the variables to read; the process's own when None.

    Returns:
        The settings. An empty variable counts as not set.

    Raises:
        SettingsError: a variable's value is not valid for its setting.
    """
    settings = kit_settings.load(Settings, PREFIX, environ)
    _check(settings)
    return settings


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """Variables that look like settings and are none, nor the gateway's; see `ragstore.kit.settings.unknown`."""
    found = kit_settings.unknown(Settings, PREFIX, CALLERS, environ)
    return [name for name in found if not name.startswith(GATEWAY_PREFIX)]


def shown(settings: Settings) -> dict[str, str]:
    """The settings in force, secrets masked; see `ragstore.kit.settings.shown`."""
    return kit_settings.shown(settings, PREFIX)


def _check(settings: Settings) -> None:
    """Check what the type of one field cannot express."""
    if settings.chroma_url:
        try:
            parts = urlsplit(settings.chroma_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise SettingsError(f"{variable('chroma_url')} is wrong: it must be an http:// or https:// address")
    if not all(RESERVED_PREFIX.fullmatch(prefix) for prefix in settings.reserved):
        raise SettingsError(
            f"{variable('reserved_prefixes')} is wrong: it must be {NOTHING_RESERVED}, or prefixes of 2 to 16 "
            "characters that end with '_', '-' or '.'"
        )
    if settings.chroma_ca_file and not Path(settings.chroma_ca_file).is_file():
        raise SettingsError(f"{variable('chroma_ca_file')} is wrong: there is no such file")
    if wrong := settings.chroma_quotas.keys() - set(QUOTAS):
        raise SettingsError(
            f"{variable('chroma_quotas')} is wrong: there is no quota {sorted(wrong)[0]!r}, but {', '.join(QUOTAS)}"
        )
    if any("\n" in text or "\r" in text for pair in settings.chroma_headers.items() for text in pair):
        raise SettingsError(f"{variable('chroma_headers')} is wrong: a header must not hold a line break")
