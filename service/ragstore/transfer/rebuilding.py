"""Starts a rebuild of a collection's index, and follows it until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import ragstore_client as client
from ragstore.transfer.failures import TransferFailed
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.service import Service

POLL_SECONDS: Final = 0.5


async def rebuild_index(
    service: Service, name: str, sample: int, hnsw: Mapping[str, int | None], progress: TransferProgress
) -> client.Rebuild:
    """Rebuild an index.

    Args:
        service: the service that has the collection.
        name: the collection.
        sample: number of documents that are looked for in the old index and in the new one.
        hnsw: parameters of the new index; a None leaves the parameter as it is.
        progress: shows the documents that are copied.

    Returns:
        The state after the end.

    Raises:
        TransferFailed: the rebuild was rejected, or failed.
    """
    state = await service.start_rebuild(name, sample, hnsw)
    while state.status == "running":
        await asyncio.sleep(POLL_SECONDS)
        state = await service.rebuild(name)
        progress.begin(state.total, state.done)
    if state.status != "completed":
        reason = "the reason is in the log of the service" if state.error is None else state.error.detail
        raise TransferFailed(f"{service.address}: The index of '{name}' was not rebuilt: {reason}")
    return state
