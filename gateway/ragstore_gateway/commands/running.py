"""Runs the commands that call a gateway, with its client, and shows its errors as one line for people."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import click
import httpx

from ragstore_client import (
    CallTimeout,
    ConnectFailed,
    NotFound,
    ProblemError,
    RagstoreError,
    TransportError,
    Unauthorized,
    UnexpectedResponse,
)
from ragstore_client.gateway import Assistant, AsyncConfigurations, AsyncGatewayClient, KnowledgeBase, Stored
from ragstore_gateway.settings import KEY_VARIABLE, URL_VARIABLE

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])
ConfigurationT = TypeVar("ConfigurationT", KnowledgeBase, Assistant)

DEFAULT_URL: Final = "http://127.0.0.1:8090"
MAX_PORT: Final = 65535
TIMEOUT_SECONDS: Final = 600.0


def url_option(command: Command) -> Command:
    """Add `--url`."""
    text = f"The gateway; {URL_VARIABLE} by default, or {DEFAULT_URL}."
    return click.option("--url", default="", help=text)(command)


def run(url: str, work: Callable[[AsyncGatewayClient], Awaitable[T]]) -> T:
    """Run a command.

    Args:
        url: the gateway; empty for `RAGSTORE_GATEWAY_URL`, or else `DEFAULT_URL`.

    Raises:
        click.ClickException: it failed.
        click.UsageError: the address is none of HTTP.
    """
    address = address_of(url)

    async def connected() -> T:
        async with AsyncGatewayClient(address, timeout=TIMEOUT_SECONDS) as gateway:
            return await work(gateway)

    try:
        return asyncio.run(connected())
    except RagstoreError as error:
        raise click.ClickException(message_of(error, address)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or ''}: {error.strerror or type(error).__name__}") from None


def on_gateway(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command of a function whose first argument is the gateway's client, with the option `--url`."""

    @url_option
    @functools.wraps(command)
    def call(*, url: str, **arguments: Any) -> None:  # click passes all arguments by name
        run(url, lambda gateway: command(gateway, **arguments))

    return call


def address_of(url: str) -> str:
    """The address of a gateway.

    Args:
        url: its address; empty for `RAGSTORE_GATEWAY_URL`, or else `DEFAULT_URL`.

    Raises:
        click.UsageError: the address is none of HTTP.
    """
    text = url or os.environ.get(URL_VARIABLE, "") or DEFAULT_URL
    try:
        parsed = httpx.URL(text)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host or (parsed.port or 0) > MAX_PORT:
        raise click.UsageError(f"'{text}' is not the address of a gateway, such as {DEFAULT_URL}")
    return text


async def find_base(gateway: AsyncGatewayClient, name: str, version: int | None = None) -> Stored[KnowledgeBase]:
    """A knowledge base.

    Args:
        name: its name, or its id.
        version: a version; None for the current one.

    Raises:
        click.ClickException: there is none.
    """
    hint = "`ragstore-gateway kb list` lists the bases, and `ragstore-gateway kb create NAME` creates one"
    return await _find(gateway.bases, "knowledge base", hint, name, version)


async def find_assistant(gateway: AsyncGatewayClient, name: str, version: int | None = None) -> Stored[Assistant]:
    """An assistant; see `find_base`."""
    hint = "`ragstore-gateway kb assistant list` lists them"
    return await _find(gateway.assistants, "assistant", hint, name, version)


async def _find(
    configurations: AsyncConfigurations[ConfigurationT], kind: str, hint: str, name: str, version: int | None
) -> Stored[ConfigurationT]:
    try:
        return await configurations.find(name, version=version)
    except NotFound as error:
        if error.code != "configuration_not_found":
            raise
        missing = f"no version {version} of" if version else "no"
        raise click.ClickException(f"There is {missing} {kind} '{name}': {hint}") from None


def message_of(error: RagstoreError, address: str) -> str:
    """An error as one line, with the next step where it is known.

    Args:
        address: the gateway.
    """
    match error:
        case ConnectFailed():
            return (
                f"The gateway at {address} cannot be reached: start it with `ragstore-gateway serve`, or set --url or "
                f"{URL_VARIABLE} to its address"
            )
        case CallTimeout():
            return f"The gateway at {address} does not respond: its log may say why; try again later"
        case TransportError():
            return f"The connection to the gateway at {address} was lost: the same command tries again"
        case UnexpectedResponse():
            return f"{error.method} {error.url}: the response has another form: is it a ragstore-gateway?"
        case ProblemError() if error.code is None:
            return f"{error.method} {error.url}: status {error.status}: is it a ragstore-gateway?"
        case Unauthorized():
            return f"{_line(error)} (401): set {KEY_VARIABLE} to a key of the gateway"
        case ProblemError():
            return f"{_line(error)} ({error.status})"
        case _:
            return _line(error)


def _line(error: RagstoreError) -> str:
    return " ".join(str(error).split()) or type(error).__name__
