"""Settings: a frozen struct that is read from environment variables with a prefix.

A service declares a struct, usually a subclass of `ServerSettings`. Each field is read from the prefix and its name in
capitals, is converted to the field's type, and is validated by its `msgspec.Meta`. A field of type `dict`, `list` or
`tuple` is read as JSON. A secret is marked in its annotation, so that nothing shows it:

    token: Annotated[str, SECRET] = ""
    url: Annotated[str, SECRET_USERINFO] = ""
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

SECRET: Final = Meta(extra={"secret": "value"})
"""Marks a field whose value is never shown. Of a dictionary the keys are."""

SECRET_USERINFO: Final = Meta(extra={"secret": "userinfo"})
"""Marks a URL whose user and password are never shown."""

MASK: Final = "***"

ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
"""A web origin. `*` is not valid: allowing every page in the world should take more than one character."""

SWITCHES: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
"""The values of a boolean, in lower case."""

Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]


class SettingsError(Exception):
    """A setting is not valid. The text is one line and names the variable."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of any service of ours.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        request_timeout_seconds: longest time for one request; its head and its body must have come within it. A stream
            has it for each line and for each batch.
        max_requests: maximum number of concurrent requests; a further one is 503.
        max_body_bytes: largest request body; a larger one is 413.
        max_small_body_bytes: largest body of a request that stores no documents, such as a query; a larger one is 413.
        max_bytes_in_flight: maximum size of all bodies in flight together; a further one waits up to 5 s and is then
            503. 0 means a quarter of the container's memory limit, or of the machine's memory without one.
        keys_file: file of the keys that callers need; empty means that they need none.
        allow_open: whether to listen without keys on an address that other machines reach.
        cors_origins: web origins whose pages may call the service, separated by commas; empty means none.
        rate_limit: requests a minute for each key, or for all callers together without keys; 0 means no limit.
        drain_seconds: time for which the service still serves after SIGTERM, and reports that it is not ready, before
            it stops listening. At least the time in which a load balancer notices that.
        shutdown_seconds: time that running requests get when the service stops.
        log_level: minimum log level.
        log_format: `json`, `console`, or `auto`: console on a terminal, JSON elsewhere.
    """

    host: str = "127.0.0.1"
    port: Port = 8080
    request_timeout_seconds: Seconds = 30.0
    max_requests: Count = 512
    max_body_bytes: Count = 64 * 1024 * 1024
    max_small_body_bytes: Count = 1024 * 1024
    max_bytes_in_flight: Annotated[int, Meta(ge=0)] = 0
    keys_file: str = ""
    allow_open: bool = False
    cors_origins: str = ""
    rate_limit: Annotated[int, Meta(ge=0)] = 0
    drain_seconds: Annotated[float, Meta(ge=0)] = 0.0
    shutdown_seconds: Count = 20
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"

    @property
    def origins(self) -> list[str]:
        """The web origins whose pages may call the service."""
        return [origin.strip() for origin in self.cors_origins.split(",") if origin.strip()]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the service. A name other than `localhost` may resolve to any address."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


S = TypeVar("S", bound=msgspec.Struct)


def variable(prefix: str, field: str) -> str:
    """The environment variable of a field."""
    return prefix + field.upper()


def load(kind: type[S], prefix: str, environ: Mapping[str, str] | None = None) -> S:
    """Read settings.

    Args:
        kind: the struct.
        prefix: begins the variables' names, such as `RAGSTORE_`.
        environ: the variables to read; the process's own when None.

    Returns:
        The settings. An empty variable counts as not set.

    Raises:
        SettingsError: a variable's value is not valid for its field.
    """
    environ = os.environ if environ is None else environ
    given = {
        field.name: _converted(variable(prefix, field.name), field.type, environ[variable(prefix, field.name)])
        for field in msgspec.structs.fields(kind)
        if environ.get(variable(prefix, field.name))
    }
    settings = msgspec.convert(given, kind)
    if isinstance(settings, ServerSettings) and not all(ORIGIN.fullmatch(origin) for origin in settings.origins):
        raise SettingsError(
            f"{variable(prefix, 'cors_origins')} is wrong: each must be an origin such as https://app.example, "
            "without a path"
        )
    return settings


def _converted(name: str, kind: Any, value: str) -> object:
    bare = _bare(kind)
    try:
        if get_origin(bare) in (dict, list, tuple):
            return msgspec.json.decode(value, type=kind)
        if bare is bool and value.lower() in SWITCHES:
            return SWITCHES[value.lower()]
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error).replace("Expected `int`, got `str`", "it must be a whole number")
        text = text.replace("Expected `float`, got `str`", "it must be a number")
        raise SettingsError(f"{name} is wrong: {_expected(bare) or text}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise SettingsError(f"{name} is wrong: it must be valid JSON") from None


def _expected(kind: Any) -> str:
    """The values that a setting takes, as the rest of a message; empty if the conversion's own message says it."""
    if get_origin(kind) is Literal:
        return f"it must be one of {', '.join(map(str, get_args(kind)))}"
    return "it must be true or false" if kind is bool else ""


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def unknown(
    kind: type[msgspec.Struct], prefix: str, also: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> list[str]:
    """Variables that look like settings and are none.

    They do not prevent the start: Kubernetes sets such variables for a Service of the same name. They may be typing
    errors, so they are reported.

    Args:
        kind: the struct.
        prefix: begins the variables' names.
        also: known variables that are no settings, such as variables of clients.
        environ: the variables to read; the process's own when None.

    Returns:
        Their names, sorted.
    """
    environ = os.environ if environ is None else environ
    known = {variable(prefix, field) for field in kind.__struct_fields__} | set(also)
    return sorted(name for name in environ if name.startswith(prefix) and name not in known)


def shown(settings: msgspec.Struct, prefix: str) -> dict[str, str]:
    """The settings in force, for people.

    Args:
        prefix: begins the variables' names.

    Returns:
        Variables with their values as text; secrets are masked.
    """
    return {
        variable(prefix, field.name): _masked(getattr(settings, field.name), _mark(field.type))
        for field in msgspec.structs.fields(settings)
    }


def _mark(kind: Any) -> str:
    marks = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    found = (mark.extra["secret"] for mark in marks if isinstance(mark, Meta) and mark.extra and "secret" in mark.extra)
    return str(next(found, ""))


def _masked(value: object, mark: str) -> str:
    if isinstance(value, dict):
        return msgspec.json.encode(dict.fromkeys(value, MASK) if mark else value).decode()
    if mark == "userinfo":
        return without_userinfo(str(value))
    return MASK if mark and value else str(value)


def without_userinfo(url: str) -> str:
    """A URL without the user and password that it may hold."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return parts._replace(netloc=f"{MASK}@" + parts.netloc.rpartition("@")[2]).geturl()
