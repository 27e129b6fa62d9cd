"""The command `ragstore-gateway mcp`."""

from __future__ import annotations

import asyncio

import click

from ragstore.kit.command_line import one_line
from ragstore.kit.extras import MissingExtra, require_extra
from ragstore_gateway.commands.running import address_of, run, url_option


@click.command(short_help="Serve the tools for agents on standard input and output.")
@url_option
def mcp(url: str) -> None:
    """Serve a gateway's tools for agents on standard input and output, for programs that start a command for them.

    It speaks the Model Context Protocol, and forwards each call to /mcp of the gateway. Its key is
    RAGSTORE_GATEWAY_API_KEY.
    """
    with one_line(MissingExtra):
        require_extra("ragstore-gateway[mcp]", "The Model Context Protocol", "mcp")
    # An error is one line: the gateway cannot be reached, or the key may not read.
    run(url, lambda gateway: gateway.bases.page(limit=1))
    # Only now: the SDK takes a second to load.
    from ragstore_gateway.commands.mcp_bridge import bridge

    asyncio.run(bridge(address_of(url)))
