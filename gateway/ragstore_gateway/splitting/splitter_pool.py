"""`Splitter`: splits texts, in processes of their own.

A large overlap makes chunks that have many times the characters of their text, and the library behind `recursive` and
`markdown` needs quadratic time for some texts. A thread cannot be killed; a process can, and its memory is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self

import msgspec
import structlog

from ragstore_gateway.errors import ExtractionUnavailable, SplittingFailed, SplittingTimeout, TooManyChunks
from ragstore_gateway.extraction.worker import Worker, WorkerFailed
from ragstore_gateway.extraction.worker_pool import STOPPING, WorkerPool
from ragstore_gateway.settings import Settings
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan
from ragstore_gateway.splitting.protocol import SplitRequest, SplitResponse, SplitSuccess, max_response_bytes

PROGRAM: Final = "ragstore_gateway.splitting.process"

_RESPONSES: Final[msgspec.msgpack.Decoder[list[SplitResponse]]] = msgspec.msgpack.Decoder(list[SplitResponse])

_log = structlog.get_logger(__name__)


class Splitter:
    """Splits texts. Processes start when they are needed and are kept for the next texts.

    Args:
        timeout_seconds: time limit for one text, without the wait for a process.
        memory_bytes: maximum memory of a process. The vocabulary of tokens takes 140 MB of it.
        concurrency: maximum number of processes.
        max_chunks: maximum number of chunks of a text.

    Attributes:
        timeout_seconds: the time limit.
    """

    def __init__(self, timeout_seconds: float, memory_bytes: int, concurrency: int, max_chunks: int) -> None:
        self.timeout_seconds = timeout_seconds
        self._memory_bytes = memory_bytes
        self._max_chunks = max_chunks
        self._pool = WorkerPool(PROGRAM, memory_bytes, concurrency)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """A splitter with the limits of the settings."""
        return cls(
            settings.splitting_timeout_seconds,
            settings.splitting_memory_bytes,
            settings.extraction_concurrency,
            settings.max_document_chunks,
        )

    @property
    def workers(self) -> frozenset[Worker]:
        """The processes that run now."""
        return self._pool.workers

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Allow splitting, and kill all processes at the end."""
        async with self._pool.running():
            yield

    async def split(self, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
        """Split a text; see `chunks_of`.

        Args:
            extracted: an `Extracted` as MessagePack.
            chunking: how to split it.

        Returns:
            The spans of its chunks.

        Raises:
            ExtractionUnavailable: no process could be started.
            SplittingFailed: it needs too much memory.
            SplittingTimeout: it takes too long.
            TooManyChunks: it has too many chunks.
        """
        async with self._pool.slots:
            worker = self._pool.take_idle()
            if worker is not None:
                try:
                    return await self._run(worker, extracted, chunking)
                except SplittingFailed:
                    # It may have been killed meanwhile, or have little memory left. A new one decides.
                    pass
            return await self._run(await self._pool.start(), extracted, chunking)

    async def split_together(self, extracted: Sequence[bytes], chunking: Chunking) -> list[list[ChunkSpan] | None]:
        """Split several small texts with one call of a process.

        Args:
            extracted: an `Extracted` as MessagePack for each text.
            chunking: how to split them.

        Returns:
            The spans of the chunks of each text; None for a text that has to be split alone, since it or another one
            failed.

        Raises:
            ExtractionUnavailable: no process could be started.
        """
        async with self._pool.slots:
            worker = self._pool.take_idle() or await self._pool.start()
            try:
                responses = await self._exchange(worker, extracted, chunking)
            except (SplittingFailed, SplittingTimeout):
                return [None] * len(extracted)
        return [response.spans if isinstance(response, SplitSuccess) else None for response in responses]

    async def _run(self, worker: Worker, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
        """Split a text in a process."""
        (response,) = await self._exchange(worker, [extracted], chunking)
        if isinstance(response, SplitSuccess):
            return response.spans
        if response.reason == "chunks":
            raise TooManyChunks(f"The document has more than {self._max_chunks} chunks, which is the maximum")
        _log.warning("text not split", reason=response.reason)
        raise self._failed() if response.reason == "memory" else SplittingFailed("Internal error")

    async def _exchange(self, worker: Worker, extracted: Sequence[bytes], chunking: Chunking) -> list[SplitResponse]:
        """Split texts in a process, and keep the process for the next ones or kill it."""
        request = SplitRequest(chunking, self._max_chunks, self.timeout_seconds)
        texts = msgspec.msgpack.encode([msgspec.Raw(each) for each in extracted])
        reusable = False
        try:
            async with asyncio.timeout(self.timeout_seconds):
                encoded = await worker.exchange(
                    msgspec.msgpack.encode(request), texts, max_response_bytes(self._max_chunks)
                )
            responses = _RESPONSES.decode(encoded)
            if len(responses) != len(extracted):
                raise WorkerFailed
            reusable = all(isinstance(each, SplitSuccess) or each.reason == "chunks" for each in responses)
        except TimeoutError:
            _log.warning("splitting process killed", reason=SplittingTimeout.code)
            limit = f"{self.timeout_seconds:g} s"
            raise SplittingTimeout(f"Splitting the text took longer than {limit}; a smaller overlap helps") from None
        except (WorkerFailed, msgspec.MsgspecError):
            if not self._pool.is_running:
                raise ExtractionUnavailable(STOPPING) from None
            _log.warning("splitting process failed")
            raise self._failed() from None
        finally:
            await self._pool.release(worker, reusable=reusable)
        return responses

    def _failed(self) -> SplittingFailed:
        return SplittingFailed(f"Splitting the text needs more than {self._memory_bytes} bytes of memory")
