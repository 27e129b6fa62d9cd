"""Runs the commands that call a gateway."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from ragstore_gateway.commands.gateway_connection import GatewayConnection, GatewayFailed
from ragstore_gateway.commands.kb.archive import BadArchive
from ragstore_gateway.commands.kb.client import KnowledgeBases
from ragstore_gateway.commands.remote import DEFAULT_URL
from ragstore_gateway.settings import URL_VARIABLE

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])


def url_option(command: Command) -> Command:
    """Add `--url`."""
    text = f"The gateway; {URL_VARIABLE} by default, or {DEFAULT_URL}."
    return click.option("--url", default="", help=text)(command)


def run(url: str, work: Callable[[KnowledgeBases], Awaitable[T]]) -> T:
    """Run a command.

    Args:
        url: the gateway; empty for the address in the environment.

    Raises:
        click.ClickException: it failed.
    """

    async def connected() -> T:
        async with GatewayConnection(url or os.environ.get(URL_VARIABLE, "") or DEFAULT_URL) as connection:
            return await work(KnowledgeBases(connection))

    try:
        return asyncio.run(connected())
    except (BadArchive, GatewayFailed) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or ''}: {error.strerror or type(error).__name__}") from None
