"""Fetchers for tests, in which one address of this machine is the public network, and another one an inner server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

from ragstore_gateway.fetching.addresses import IPAddress
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.fetching.rules import FetchRules
from tests.support.fake_sites import FakeSite, Names

PUBLIC = "127.0.0.2"
INNER = "127.0.0.1"


def is_public_here(address: IPAddress) -> bool:
    """The check of addresses: one address of this machine is public."""
    return address == ip_address(PUBLIC)


@asynccontextmanager
async def a_fetcher(
    *sites: FakeSite, names: dict[str, list[list[str]]] | None = None, **rules: Any
) -> AsyncIterator[Fetcher]:
    """A fetcher that is running.

    Args:
        sites: the servers whose ports are allowed.
        names: the addresses of names, see `Names`.
        rules: other rules.
    """
    given = {"ports": frozenset(site.port for site in sites), "address_check": is_public_here, "robots": False}
    fetcher = Fetcher(FetchRules(**{**given, **rules}), Names(names or {}))
    async with fetcher.running():
        yield fetcher
