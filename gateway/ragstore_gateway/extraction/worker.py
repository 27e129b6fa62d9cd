"""A process that extracts texts, as the gateway sees it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Self

import msgspec

from ragstore.kit.background import cancel_all
from ragstore.kit.time_slices import rest_if_large
from ragstore_gateway.errors import ExtractionUnavailable
from ragstore_gateway.extraction.protocol import LENGTH, MAX_FORMAT_BYTES, READY, Request, Response, max_response_bytes

START_SECONDS: Final = 30.0
"""Time limit for the start of a process. It takes 0.3 s on an idle machine."""

_RESPONSES: Final[msgspec.msgpack.Decoder[Response]] = msgspec.msgpack.Decoder(Response)

PROGRAM: Final = "ragstore_gateway.extraction.worker_main"

_WRITE_BYTES: Final = 256 * 1024
_READ_BYTES: Final = 1024 * 1024

_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ", "TMPDIR", "VIRTUAL_ENV")
"""Variables that the process gets. The others may have secrets, such as the key of the upstream."""


class WorkerFailed(Exception):
    """The process ended, or sent something that is not a response."""


class Worker:
    """A process that works on one document after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.documents = 0
        self.format = ""

    @classmethod
    async def start(cls, memory_bytes: int, program: str = PROGRAM) -> Self:
        """Start a process and wait until its libraries are loaded.

        Args:
            memory_bytes: its memory.
            program: its module.

        Raises:
            ExtractionUnavailable: it does not start.
        """
        worker: Self | None = None
        try:
            worker = cls(
                await asyncio.create_subprocess_exec(
                    sys.executable,
                    # -P: the current folder is not searched for modules.
                    *("-P", "-m", program, str(memory_bytes)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    # Parsers print parts of documents.
                    stderr=asyncio.subprocess.DEVNULL,
                    env=_environment(),
                    limit=_READ_BYTES,
                    # Ctrl-C on a terminal is for the gateway, which stops its processes itself.
                    start_new_session=True,
                )
            )
            async with asyncio.timeout(START_SECONDS):
                ready = await worker._receive(MAX_FORMAT_BYTES)
            if ready != READY:
                raise WorkerFailed
        except BaseException as error:
            if worker:
                await worker.stop()
            if isinstance(error, OSError | TimeoutError | WorkerFailed):
                unavailable = ExtractionUnavailable("The process that reads documents does not start")
                raise unavailable.because(f"{type(error).__name__}: {error}") from None
            raise
        return worker

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.returncode is None

    async def extract(self, request: Request, content: bytes) -> Response:
        """Extract a text.

        Args:
            content: the document.

        Raises:
            WorkerFailed: the process ended, or sent something that is not a response.
        """
        self.format = ""
        try:
            await self._request(msgspec.msgpack.encode(request), content)
            self.format = (await self._receive(MAX_FORMAT_BYTES)).decode("ascii", "replace")
            encoded = await self._receive(max_response_bytes(request.max_characters))
            await rest_if_large(len(encoded))
            response = _RESPONSES.decode(encoded)
            await rest_if_large(len(encoded))
            return response
        except (OSError, msgspec.MsgspecError):
            raise WorkerFailed from None

    async def extract_together(self, documents: Sequence[tuple[Request, bytes]]) -> AsyncGenerator[Response]:
        """Extract several texts. Each document is sent while the process works on the documents before it.

        Args:
            documents: the requests and the documents.

        Yields:
            The responses in the order of the documents.

        Raises:
            WorkerFailed: the process ended, or sent something that is not a response.
        """

        async def send() -> None:
            for request, content in documents:
                await self._request(msgspec.msgpack.encode(request), content)

        sending = asyncio.create_task(send())
        try:
            for request, _ in documents:
                self.format = (await self._receive(MAX_FORMAT_BYTES)).decode("ascii", "replace")
                encoded = await self._receive(max_response_bytes(request.max_characters))
                yield _RESPONSES.decode(encoded)
            await sending
        except (OSError, msgspec.MsgspecError):
            raise WorkerFailed from None
        finally:
            await cancel_all([sending])

    async def exchange(self, request: bytes, content: bytes, max_bytes: int) -> bytes:
        """Send a request of another program, and receive its response.

        Args:
            request: the request, encoded.
            content: the document.
            max_bytes: maximum size of the response.

        Raises:
            WorkerFailed: the process ended, or sent something that is too large.
        """
        try:
            await self._request(request, content)
            return await self._receive(max_bytes)
        except OSError:
            raise WorkerFailed from None

    async def _request(self, request: bytes, content: bytes) -> None:
        self.documents += 1
        await self._send(request)
        await self._send(content)

    async def stop(self) -> None:
        """Kill the process, and wait until it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdin:
            self._process.stdin.close()
        # It was killed, so this takes no time; a cancellation must not leave a zombie.
        await asyncio.shield(self._process.wait())

    async def _send(self, content: bytes) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise WorkerFailed
        stdin.write(LENGTH.pack(len(content)))
        view = memoryview(content)
        for first in range(0, len(content), _WRITE_BYTES):
            stdin.write(view[first : first + _WRITE_BYTES])
            await stdin.drain()

    async def _receive(self, max_bytes: int) -> bytes:
        stdout = self._process.stdout
        if stdout is None:
            raise WorkerFailed
        try:
            (size,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
            if size > max_bytes:
                raise WorkerFailed
            return await stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            raise WorkerFailed from None


def _environment() -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        # As with multiprocessing, it finds the modules that this process finds.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Each further arena and thread would take a part of the memory limit.
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
