"""Runs the commands that call a gateway."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click
import httpx

from ragstore_gateway.commands.gateway_client.client import GatewayClient
from ragstore_gateway.commands.gateway_client.connection import GatewayFailed
from ragstore_gateway.settings import URL_VARIABLE

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])

DEFAULT_URL: Final = "http://127.0.0.1:8090"
MAX_PORT: Final = 65535


def url_option(command: Command) -> Command:
    """Add `--url`."""
    text = f"The gateway; {URL_VARIABLE} by default, or {DEFAULT_URL}."
    return click.option("--url", default="", help=text)(command)


def run(url: str, work: Callable[[GatewayClient], Awaitable[T]]) -> T:
    """Run a command.

    Args:
        url: the gateway; empty for `RAGSTORE_GATEWAY_URL`, or else `DEFAULT_URL`.

    Raises:
        click.ClickException: it failed.
        click.UsageError: the address is none of HTTP.
    """
    address = address_of(url)

    async def connected() -> T:
        async with GatewayClient(address) as gateway:
            return await work(gateway)

    try:
        return asyncio.run(connected())
    except GatewayFailed as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or ''}: {error.strerror or type(error).__name__}") from None


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
