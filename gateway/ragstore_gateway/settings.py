"""The gateway's settings: one frozen struct, read from `RAGSTORE_GATEWAY_*` environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from ragstore import settings as store_settings
from ragstore.kit import settings as kit_settings
from ragstore.kit.settings import SECRET, SECRET_USERINFO, Port, Seconds, ServerSettings, SettingsError

PREFIX: Final = "RAGSTORE_GATEWAY_"

URL_VARIABLE: Final = "RAGSTORE_GATEWAY_URL"
KEY_VARIABLE: Final = "RAGSTORE_GATEWAY_API_KEY"
CALLERS: Final = frozenset({URL_VARIABLE, KEY_VARIABLE})
"""Variables of the commands that call a running gateway. None is a setting of the gateway."""

ALIASES: Final[Mapping[str, str]] = {
    "LITELLM_BASE": "upstream_url",
}
"""Variables of other programs that are read, too, with the field that they set. The gateway's own variable wins."""


class Settings(ServerSettings, frozen=True, kw_only=True):
    """Everything that can be set. Each field is read from `RAGSTORE_GATEWAY_` and its name in capitals.

    Attributes:
        data_path: folder of the gateway's state, and of embedded Chroma when the store runs in the same process.
        upstream_url: base URL of an OpenAI-compatible API, which ends in `/v1`; empty means that there is no chat.
        upstream_key: key for the upstream.
        upstream_timeout_seconds: longest wait for the first byte of an upstream response, and between two chunks.
    """

    port: Port = 8090
    data_path: str = "./data"
    upstream_url: Annotated[str, SECRET_USERINFO] = ""
    upstream_key: Annotated[str, SECRET] = ""
    upstream_timeout_seconds: Seconds = 600.0


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
        SettingsError: a value is not valid for its setting, or a variable with the gateway's prefix is not a setting.
    """
    environ = os.environ if environ is None else environ
    unknown = kit_settings.unknown(Settings, PREFIX, CALLERS, environ)
    if unknown:
        raise SettingsError(f"{unknown[0]} is set, but is not a setting of the gateway")
    aliased = {
        variable(field): environ[alias]
        for alias, field in ALIASES.items()
        if environ.get(alias) and not environ.get(variable(field))
    }
    settings = kit_settings.load(Settings, PREFIX, {**environ, **aliased})
    _check(settings)
    return settings


def load_store(settings: Settings, environ: Mapping[str, str] | None = None) -> store_settings.Settings:
    """The settings of the store in this process: `RAGSTORE_*` variables, with the gateway's address, keys and folder.

    Args:
        settings: the gateway's settings.
        environ: the variables to read; the process's own when None.

    Raises:
        SettingsError: a `RAGSTORE_*` variable is not valid.
    """
    environ = os.environ if environ is None else environ
    shared = {
        store_settings.variable(field): str(getattr(settings, field)).lower()
        for field in (*ServerSettings.__struct_fields__, "data_path")
    }
    own = {name: value for name, value in environ.items() if not name.startswith(PREFIX) and name not in shared}
    return store_settings.load({**own, **shared})


def shown(settings: Settings) -> dict[str, str]:
    """The settings in force, secrets masked; see `ragstore.kit.settings.shown`."""
    return kit_settings.shown(settings, PREFIX)


def _check(settings: Settings) -> None:
    """Check what the type of one field cannot express."""
    if settings.upstream_url:
        parts = urlsplit(settings.upstream_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"{variable('upstream_url')} is wrong: it must be an http:// or https:// address")
