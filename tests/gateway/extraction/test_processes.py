"""The processes that extract texts: started when needed, limited, killed, replaced, and none left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from prometheus_client import REGISTRY

from ragstore_gateway.errors import ExtractionFailed, ExtractionTimeout, ExtractionUnavailable
from ragstore_gateway.extraction import extractor as extractor_module
from ragstore_gateway.extraction import worker_pool
from ragstore_gateway.extraction.child_limits import NICENESS
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.extractor import Extractor, NewDocument
from ragstore_gateway.extraction.kept_text import KEPT_TEXT, KeptText
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.worker import Worker, WorkerFailed
from ragstore_gateway.settings import Settings
from tests.gateway.extraction import documents
from tests.gateway.extraction.conftest import LIMITS, running

pytestmark = pytest.mark.process

TEXT = b"The kettle boils."
WAIT_SECONDS = 60
SLOW_MEMORY_BYTES = 512 * 1024 * 1024


def is_running(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


async def busy_worker(extractor: Extractor, other_than: Worker | None = None) -> Worker:
    """The worker that has recognised a slow document and now parses it."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            for worker in extractor.workers:
                if worker is not other_than and worker.format == "docx":
                    return worker
            await asyncio.sleep(0.01)


def total(kind: str, outcome: str) -> float:
    """The counter of extractions."""
    labels = {"format": kind, "outcome": outcome}
    return REGISTRY.get_sample_value("ragstore_gateway_extractions_total", labels) or 0


async def test_an_exported_text_is_read_by_a_process_and_only_where_one_is_expected() -> None:
    kept = KeptText(text="The kettle boils.", type="text/plain", title="Tea")
    content = msgspec.json.encode(kept)
    async with running(LIMITS) as extractor:
        found = await extractor.read_kept(content)
        assert (found.text, found.title, found.media_type) == (kept.text, kept.title, kept.type)
        assert [worker.documents for worker in extractor.workers] == [1]
        for wrong in (b"{", msgspec.json.encode({"text": "x", "type": "image/png"})):
            with pytest.raises(ExtractionFailed, match=r"vnd\.ragstore\.text"):
                await extractor.read_kept(wrong)
        sent = await extractor.extract(content, media_type=KEPT_TEXT)
        assert sent.text == content.decode()


async def test_a_process_is_kept_for_the_next_document() -> None:
    async with running(LIMITS) as extractor:
        assert not extractor.workers
        await extractor.extract(TEXT)
        first = extractor.workers
        await extractor.extract(TEXT)
        assert extractor.workers == first
        assert len(first) == 1


async def test_the_gateway_runs_before_a_process_on_busy_cores() -> None:
    async with running(LIMITS) as extractor:
        await extractor.extract(TEXT)
        (worker,) = extractor.workers
        niceness = os.getpriority(os.PRIO_PROCESS, worker.pid)
    assert niceness == os.nice(0) + NICENESS


async def test_a_document_that_takes_too_long_costs_its_process_and_not_the_next_document() -> None:
    limits = LIMITS._replace(timeout_seconds=2, memory_bytes=SLOW_MEMORY_BYTES)
    async with running(limits) as extractor:
        await extractor.extract(TEXT)
        (worker,) = extractor.workers
        before = sum(total(kind, ExtractionTimeout.code) for kind in ("docx", "unknown"))
        with pytest.raises(ExtractionTimeout, match="took longer than 2 s"):
            await extractor.extract(documents.slow())
        assert not is_running(worker.pid)
        assert sum(total(kind, ExtractionTimeout.code) for kind in ("docx", "unknown")) == before + 1
        assert (await extractor.extract(TEXT)).text == TEXT.decode()


async def test_a_cancelled_extraction_kills_its_process() -> None:
    async with running(LIMITS._replace(memory_bytes=SLOW_MEMORY_BYTES)) as extractor:
        extracting = asyncio.create_task(extractor.extract(documents.slow()))
        worker = await busy_worker(extractor)
        extracting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await extracting
        assert not is_running(worker.pid)
        assert not extractor.workers


async def test_a_process_ends_after_some_time_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "IDLE_SECONDS", 0.3)
    async with running(LIMITS) as extractor:
        await extractor.extract(TEXT)
        (worker,) = extractor.workers
        async with asyncio.timeout(WAIT_SECONDS):
            while is_running(worker.pid):  # noqa: ASYNC110  # it has no event
                await asyncio.sleep(0.05)
        assert not extractor.workers
        assert (await extractor.extract(TEXT)).text == TEXT.decode()


async def test_a_process_that_was_killed_while_idle_is_replaced() -> None:
    async with running(LIMITS) as extractor:
        await extractor.extract(TEXT)
        (worker,) = extractor.workers
        os.kill(worker.pid, signal.SIGKILL)
        assert (await extractor.extract(TEXT)).text == TEXT.decode()
        assert worker not in extractor.workers


async def test_a_process_that_crashes_on_its_first_document_is_an_error() -> None:
    async with running(LIMITS._replace(memory_bytes=SLOW_MEMORY_BYTES)) as extractor:
        extracting = asyncio.create_task(extractor.extract(documents.slow()))
        os.kill((await busy_worker(extractor)).pid, signal.SIGSEGV)
        with pytest.raises(ExtractionFailed, match="The parser of DOCX files crashed"):
            await extracting
        assert not extractor.workers


async def test_a_document_is_extracted_again_if_a_process_that_was_used_before_crashes() -> None:
    limits = LIMITS._replace(memory_bytes=SLOW_MEMORY_BYTES, timeout_seconds=2 * WAIT_SECONDS)
    async with running(limits) as extractor:
        await extractor.extract(TEXT)
        extracting = asyncio.create_task(extractor.extract(documents.slow()))
        first = await busy_worker(extractor)
        os.kill(first.pid, signal.SIGSEGV)
        second = await busy_worker(extractor, other_than=first)
        assert (first.documents, second.documents) == (2, 1)
        extracting.cancel()


def new(content: bytes, name: str = "") -> NewDocument:
    """A document that is extracted together with others."""
    return NewDocument(content, "", name, is_kept=False)


def texts(found: list[Extracted | None]) -> list[str | None]:
    """The texts of documents."""
    return [None if each is None else each.text for each in found]


async def test_documents_are_extracted_together_by_one_process_and_a_bad_one_is_left_out() -> None:
    async with running(LIMITS) as extractor:
        exported = msgspec.json.encode(KeptText(text="It was exported.", type="text/plain"))
        given = [
            new(TEXT),
            new(b" \n"),
            new(b"%PDF-1.7 damaged"),
            NewDocument(exported, "", "", is_kept=True),
            new(TEXT),
        ]
        found = await extractor.extract_together(given)
        assert texts(found) == [TEXT.decode(), None, None, "It was exported.", TEXT.decode()]
        (worker,) = extractor.workers
        assert worker.documents == 5


async def test_a_document_that_takes_too_long_leaves_the_documents_before_it_extracted() -> None:
    limits = LIMITS._replace(timeout_seconds=2, memory_bytes=SLOW_MEMORY_BYTES)
    async with running(limits) as extractor:
        found = await extractor.extract_together([new(TEXT), new(documents.slow()), new(TEXT)])
        assert texts(found) == [TEXT.decode(), None, None]
        assert not extractor.workers
        assert texts(await extractor.extract_together([new(TEXT)])) == [TEXT.decode()]


async def test_a_process_that_crashes_leaves_the_documents_before_it_extracted() -> None:
    async with running(LIMITS._replace(memory_bytes=SLOW_MEMORY_BYTES)) as extractor:
        extracting = asyncio.create_task(extractor.extract_together([new(TEXT), new(documents.slow()), new(TEXT)]))
        os.kill((await busy_worker(extractor)).pid, signal.SIGSEGV)
        assert texts(await extracting) == [TEXT.decode(), None, None]
        assert not extractor.workers


async def test_a_process_is_replaced_after_a_number_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractor_module, "MAX_DOCUMENTS", 2)
    async with running(LIMITS) as extractor:
        pids = []
        for _ in range(3):
            await extractor.extract(TEXT)
            pids.append({worker.pid for worker in extractor.workers})
        assert len(pids[0]) == 1
        assert pids[1] == set()
        assert pids[2] != pids[0]


async def test_concurrent_documents_share_a_limited_number_of_processes() -> None:
    async with running(LIMITS) as extractor:
        texts = [f"Kettle {number}" for number in range(20)]
        extracted = await asyncio.gather(*(extractor.extract(text.encode()) for text in texts))
        assert [each.text for each in extracted] == texts
        assert len(extractor.workers) == LIMITS.concurrency


async def test_no_process_is_left_when_the_extractor_stops() -> None:
    extractor = Extractor(LIMITS._replace(memory_bytes=SLOW_MEMORY_BYTES))
    async with extractor.running():
        slow = [asyncio.create_task(extractor.extract(documents.slow()))]
        first = await busy_worker(extractor)
        await extractor.extract(TEXT)
        slow.append(asyncio.create_task(extractor.extract(documents.slow())))
        second = await busy_worker(extractor, other_than=first)
    assert not is_running(first.pid)
    assert not is_running(second.pid)
    for extracting in slow:
        with pytest.raises(ExtractionUnavailable, match="shutting down"):
            await extracting
    assert not extractor.workers
    with pytest.raises(RuntimeError):
        await extractor.extract(TEXT)


def test_no_process_is_left_when_the_gateway_is_killed() -> None:
    program = """\
import asyncio
from tests.gateway.extraction import documents
from tests.gateway.extraction.conftest import LIMITS, running
from tests.gateway.extraction.test_processes import SLOW_MEMORY_BYTES, TEXT, busy_worker

async def main():
    async with running(LIMITS._replace(memory_bytes=SLOW_MEMORY_BYTES)) as extractor:
        extracting = asyncio.create_task(extractor.extract(documents.slow()))
        await busy_worker(extractor)
        await extractor.extract(TEXT)
        print(*(worker.pid for worker in extractor.workers), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        pids = [int(pid) for pid in gateway.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        gateway.kill()
    wait_for(lambda: not any(map(is_running, pids)))


async def test_a_process_ends_by_itself_if_the_gateway_does_not_kill_it() -> None:
    worker = await Worker.start(SLOW_MEMORY_BYTES)
    try:
        with pytest.raises(WorkerFailed):
            await worker.extract(Request("", "", "text", "", 10**9, 0.1), documents.slow())
    finally:
        await worker.stop()


async def test_a_process_has_no_variable_of_the_gateway_and_can_write_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGSTORE_GATEWAY_UPSTREAM_KEY", "s3cret")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    worker = await Worker.start(LIMITS.memory_bytes)
    try:
        process = Path(f"/proc/{worker.pid}")
        assert b"s3cret" not in (process / "environ").read_bytes()
        limits = {line[:26].strip(): line[26:].split()[0] for line in (process / "limits").read_text().splitlines()}
        assert limits["Max address space"] == str(LIMITS.memory_bytes)
        assert limits["Max file size"] == limits["Max core file size"] == "0"
        assert (process / "oom_score_adj").read_text().strip() == "1000"
    finally:
        await worker.stop()


async def test_other_tasks_run_between_the_forks_of_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    forks: list[int] = []

    async def start(*_: object) -> Worker:
        forks.append(turns)
        raise ExtractionUnavailable("")

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Worker, "start", start)
    pool = worker_pool.WorkerPool("none", 0, 2)
    counting = asyncio.create_task(count())
    async with pool.running():
        await asyncio.gather(pool.start(), pool.start(), return_exceptions=True)
    counting.cancel()
    assert forks[1] - forks[0] > 1


@pytest.mark.parametrize(("program", "cause"), [("/bin/false", "WorkerFailed"), ("/no/python", "FileNotFoundError")])
async def test_a_process_that_cannot_start_is_an_error_of_the_gateway(
    program: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(LIMITS) as extractor:
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(ExtractionUnavailable) as raised:
            await extractor.extract(TEXT)
        assert raised.value.cause.startswith(cause)
        monkeypatch.undo()
        assert (await extractor.extract(TEXT)).text == TEXT.decode()


async def test_extractions_are_counted_by_format_and_outcome(extractor: Extractor) -> None:
    before = total("pdf", "extracted"), total("pdf", "no_text"), total("unknown", "unsupported_media_type")
    await extractor.extract((documents.FILES / "manual.pdf").read_bytes())
    for name in ("scan.pdf", "zeros"):
        with pytest.raises(Exception, match="text"):
            await extractor.extract((documents.FILES / name).read_bytes() if name == "scan.pdf" else bytes(1000))
    after = total("pdf", "extracted"), total("pdf", "no_text"), total("unknown", "unsupported_media_type")
    assert after == tuple(count + 1 for count in before)


def test_the_limits_are_those_of_the_settings() -> None:
    settings = Settings(
        extraction_timeout_seconds=1.5,
        extraction_memory_bytes=2**28,
        extraction_concurrency=3,
        max_document_bytes=4,
        max_document_text_characters=5,
    )
    assert Extractor.from_settings(settings).limits == (1.5, 2**28, 3, 4, 5)
