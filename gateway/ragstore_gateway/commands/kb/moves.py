"""The parts of `ragstore-gateway kb move`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ragstore_client.gateway import AsyncGatewayClient, KnowledgeBase, Stored
from ragstore_gateway.configurations.knowledge_base import DEFAULT_STORE

POLL_SECONDS: Final = 1.0

REPORT_SECONDS: Final = 10.0
"""How often the number of documents that are left is reported."""


def in_engine(engine: str) -> dict[str, Any]:
    """The fields of a base in a named engine, which has the store type and the parameters."""
    return {"engine": engine, "storeType": DEFAULT_STORE, "storeParameters": {}}


async def until_reindexed(
    gateway: AsyncGatewayClient, base: Stored[KnowledgeBase], report: Callable[[int], None]
) -> None:
    """Wait until searches of a base use its newest collection.

    Args:
        gateway: the client.
        report: called now and then with the number of documents that are left.
    """
    loop = asyncio.get_running_loop()
    reported = loop.time()
    while True:
        left = (await gateway.ingestion_progress(base)).reindexing
        if left is None:
            return
        if loop.time() >= reported + REPORT_SECONDS:
            reported = loop.time()
            report(left)
        await asyncio.sleep(POLL_SECONDS)
