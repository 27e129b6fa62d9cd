"""`Tenants`: the limits of tenants, and what they have used of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ragstore.kit.background import in_background
from ragstore_gateway.database.database import Database
from ragstore_gateway.tenants.limits import LimitsByTenant
from ragstore_gateway.tenants.shared_quota import REQUESTS, TOKENS, SharedQuota

SETTLE_SECONDS: Final = 1.0
"""How often the database gets what was used beyond shares, so that other replicas see it."""


class Tenants:
    """The limits of requests and tokens.

    Attributes:
        limits: the limits of all tenants.
        requests: the requests of the minute.
        tokens: the tokens of the day.
    """

    def __init__(self, limits: LimitsByTenant, database: Database) -> None:
        self.limits = limits
        self.requests = SharedQuota(database, REQUESTS, limits)
        self.tokens = SharedQuota(database, TOKENS, limits)

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Share with other replicas how much was used. At the end, they get the rests of shares."""
        if not self.limits:
            yield
            return
        try:
            async with in_background(self._settle_forever()):
                yield
        finally:
            for each in (self.requests, self.tokens):
                await each.give_back()

    async def _settle_forever(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            for each in (self.requests, self.tokens):
                await each.settle()
