"""`TrialSplits`: splits texts for callers who wait for the spans. Nothing is embedded or stored."""

from __future__ import annotations

from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan
from ragstore_gateway.splitting.splitter_pool import Splitter


class TrialSplits:
    """Splits texts beside ingestions, with the same processes.

    Args:
        splitter: splits texts.
        processes: number of its processes. One of several is left to ingestions.
    """

    def __init__(self, splitter: Splitter, processes: int) -> None:
        self._splitter = splitter
        self._slots = FairSemaphore(max(processes - 1, 1))

    async def split(self, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
        """Split a text; see `Splitter.split`. A caller who leaves ends the process that works for it.

        Args:
            extracted: an `Extracted` as MessagePack.
            chunking: how to split it.

        Returns:
            The spans of its chunks.
        """
        async with self._slots.slot():
            return await self._splitter.split(extracted, chunking)
