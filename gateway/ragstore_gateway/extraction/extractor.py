"""Extracts the texts of documents, in processes of their own.

Parsers of PDF, ZIP and XML are written in C and C++, and documents come from strangers. A document that crashes its
parser, or needs too much time or memory, costs a process and never the gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple, Self

import msgspec
import structlog

from ragstore_gateway.errors import DocumentTooLarge, ExtractionFailed, ExtractionTimeout, ExtractionUnavailable
from ragstore_gateway.extraction import metrics
from ragstore_gateway.extraction.extracted import Extracted, PageLinks
from ragstore_gateway.extraction.formats import NAMES
from ragstore_gateway.extraction.protocol import Failure, Output, Request, Response, Success
from ragstore_gateway.extraction.worker import PROGRAM, Worker, WorkerFailed
from ragstore_gateway.extraction.worker_pool import STOPPING, WorkerPool
from ragstore_gateway.settings import Settings

MAX_DOCUMENTS: Final = 200
"""Documents after which a process is replaced, because parsers leak memory."""

MAX_NAME_CHARACTERS: Final = 1000

# With any text as key: a process that a document has taken over may send any format.

_log = structlog.get_logger(__name__)


class ExtractionLimits(NamedTuple):
    """The limits of an extraction.

    Attributes:
        timeout_seconds: time limit for one document, without the wait for a process.
        memory_bytes: maximum memory of a process.
        concurrency: maximum number of processes.
        max_document_bytes: largest document.
        max_characters: maximum number of characters of a text.
    """

    timeout_seconds: float
    memory_bytes: int
    concurrency: int
    max_document_bytes: int
    max_characters: int


class NewDocument(NamedTuple):
    """A document whose text is extracted together with others.

    Attributes:
        media_type: its declared media type.
        name: its file name.
        is_kept: whether it is an extracted text that was exported.
    """

    content: bytes
    media_type: str
    name: str
    is_kept: bool


class Extractor:
    """Extracts texts. Processes start when they are needed and are kept for the next documents."""

    def __init__(self, limits: ExtractionLimits) -> None:
        self.limits = limits
        self._pool = WorkerPool(PROGRAM, limits.memory_bytes, limits.concurrency)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """An extractor with the limits of the settings."""
        return cls(
            ExtractionLimits(
                settings.extraction_timeout_seconds,
                settings.extraction_memory_bytes,
                settings.extraction_concurrency,
                settings.max_document_bytes,
                settings.max_document_text_characters,
            )
        )

    @property
    def workers(self) -> frozenset[Worker]:
        """The processes that run now."""
        return self._pool.workers

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Allow extractions, and kill all processes at the end."""
        async with self._pool.running():
            yield

    async def extract(
        self, content: bytes, *, media_type: str = "", name: str = "", output: Output = "text", url: str = ""
    ) -> Extracted:
        """Extract the text of a document.

        Args:
            content: the document.
            media_type: its declared media type, if known. Its content decides first.
            name: its file name, if known. Its extension decides last.
            output: the form of the text. Only HTML pages have the form `html`; with `markdown`, headings of office
                files have marks, too.
            url: the URL of a page, if known.

        Raises:
            DocumentTooLarge: the document, its unpacked content or its text is too large, or needs too much memory.
            EncryptedDocument: it can be read only with a password.
            ExtractionFailed: it is damaged, or its parser crashed.
            ExtractionTimeout: it takes too long.
            ExtractionUnavailable: no process could be started.
            NoText: it has no text.
            UnsupportedMediaType: no text can be extracted from its type.
        """
        return (await self._extract(content, self._request(media_type, name, output, url))).extracted

    async def extract_together(self, documents: Sequence[NewDocument]) -> list[Extracted | None]:
        """Extract the texts of several small documents, with one process.

        Returns:
            The texts; None for a document that has to be extracted alone, since it or an earlier one failed.

        Raises:
            ExtractionUnavailable: no process could be started.
        """
        requests = [(self._request_of(each), each.content) for each in documents]
        texts: list[Extracted | None] = []
        async with self._pool.slots:
            worker = self._pool.take_idle() or await self._pool.start()
            reusable = False
            started = time.perf_counter()
            responses = worker.extract_together(requests)
            try:
                async with asyncio.timeout(self.limits.timeout_seconds), aclosing(responses):
                    async for response in responses:
                        if isinstance(response, Success):
                            metrics.extraction(worker.format, metrics.EXTRACTED, time.perf_counter() - started)
                            texts.append(response.extracted)
                        else:
                            texts.append(None)
                            if response.exhausted:
                                break
                        started = time.perf_counter()
                    else:
                        reusable = worker.documents < MAX_DOCUMENTS
            except (TimeoutError, WorkerFailed):
                _log.warning("extraction process killed", reason="together", documents=len(documents) - len(texts))
            finally:
                await self._pool.release(worker, reusable=reusable)
        return texts + [None] * (len(documents) - len(texts))

    def _request_of(self, document: NewDocument) -> Request:
        if document.is_kept:
            return msgspec.structs.replace(self._request("", "", "text", ""), kept=True)
        return self._request(document.media_type, document.name, "text", "")

    async def read_kept(self, content: bytes) -> Extracted:
        """Read an extracted text that was exported; see `read_kept_text`.

        A process reads it, too: the decoder of JSON holds the interpreter's lock for 0.2 s with 40 MB.

        Args:
            content: the document.

        Raises:
            ServiceError: see `extract` and `read_kept_text`.
        """
        return (await self._extract(content, self._request_of(NewDocument(content, "", "", is_kept=True)))).extracted

    async def extract_page(
        self, content: bytes, *, media_type: str = "", name: str = "", url: str = ""
    ) -> tuple[Extracted, PageLinks]:
        """Extract the text of a page of a website, and its links. An HTML page may have no text.

        Args:
            content: the page.
            media_type: its declared media type. Its content decides first.
            name: its file name.

        Returns:
            The text, which is empty if an HTML page has none, and the links of an HTML page.

        Raises:
            ServiceError: see `extract`.
        """
        request = msgspec.structs.replace(self._request(media_type, name, "text", url), links=True)
        success = await self._extract(content, request)
        return success.extracted, success.links or PageLinks()

    def _request(self, media_type: str, name: str, output: Output, url: str) -> Request:
        return Request(
            media_type[:MAX_NAME_CHARACTERS],
            name[-MAX_NAME_CHARACTERS:],
            output,
            url,
            self.limits.max_characters,
            self.limits.timeout_seconds,
        )

    async def _extract(self, content: bytes, request: Request) -> Success:
        limits = self.limits
        if len(content) > limits.max_document_bytes:
            too_large = DocumentTooLarge(f"The document has more than {limits.max_document_bytes} bytes")
            metrics.extraction("", too_large.code, 0)
            raise too_large
        if not self._pool.is_running:
            raise RuntimeError("the extractor is not running")
        async with self._pool.slots:
            started = time.perf_counter()
            try:
                response, kind = await self._response(request, content)
            except ExtractionUnavailable as error:
                metrics.extraction("", error.code, time.perf_counter() - started)
                raise
            seconds = time.perf_counter() - started
        if isinstance(response, Failure):
            failure = metrics.FAILURES.get(response.code, ExtractionFailed)
            metrics.extraction(kind, failure.code, seconds)
            raise failure(response.detail)
        metrics.extraction(kind, metrics.EXTRACTED, seconds)
        return response

    async def _response(self, request: Request, content: bytes) -> tuple[Response, str]:
        """The response of a process, and the format that it recognised.

        A process that has extracted other texts before may have little memory left, or have been killed meanwhile. Then
        the document gets a new one, so that it does not depend on the documents before.
        """
        worker = self._pool.take_idle() or await self._pool.start()
        is_new = worker.documents == 0
        started = time.monotonic()
        response = await self._run(worker, request, content, self.limits.timeout_seconds)
        if isinstance(response, Failure) and response.exhausted and not is_new:
            seconds_left = self.limits.timeout_seconds - (time.monotonic() - started)
            worker = await self._pool.start()
            response = await self._run(worker, request, content, seconds_left)
        return response, worker.format

    async def _run(self, worker: Worker, request: Request, content: bytes, seconds: float) -> Response:
        """Extract a text in a process, and keep the process for the next one or kill it."""
        reusable = False
        try:
            async with asyncio.timeout(seconds):
                response = await worker.extract(request, content)
            exhausted = isinstance(response, Failure) and response.exhausted
            reusable = not exhausted and worker.documents < MAX_DOCUMENTS
        except TimeoutError:
            limit = f"{self.limits.timeout_seconds:g} s"
            response = Failure(ExtractionTimeout.code, f"The extraction of the text took longer than {limit}")
        except WorkerFailed:
            if not self._pool.is_running:
                raise ExtractionUnavailable(STOPPING) from None
            parser = f"The parser of {NAMES[worker.format]} files" if worker.format in NAMES else "The parser"
            # PDFium and libxml2 crash when memory is exhausted.
            memory = f"needs more than {self.limits.memory_bytes} bytes of memory"
            response = Failure(ExtractionFailed.code, f"{parser} crashed on the document, or {memory}", exhausted=True)
        finally:
            await self._pool.release(worker, reusable=reusable)
        if isinstance(response, Failure) and (response.exhausted or response.code == ExtractionTimeout.code):
            _log.warning("extraction process killed", reason=response.code, format=NAMES.get(worker.format, ""))
        return response
