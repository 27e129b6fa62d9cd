"""Processes, files and clients."""

from __future__ import annotations

import inspect
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

import chromadb
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.api.async_fastapi import AsyncFastAPI

from tests.chroma_quirks.bare import new_collection, persistent_client, run_program, start_program
from tests.chroma_quirks.quirk import Quirk, shows
from tests.support.servers import Served


@shows(
    Quirk(
        name="writes-hold-the-interpreter-lock",
        summary=(
            "Embedded Chroma holds Python's interpreter lock while it writes: 1,000 records stopped all threads for "
            "0.56 s."
        ),
        workaround="Embedded Chroma runs in a process of its own.",
        works_around=("ragstore.chroma.embedded.process", "ragstore.chroma.embedded.backend"),
        upstream="#3873: Free the GIL (merged pull request: for reads)",
        stores=("embedded",),
    )
)
def test_a_write_stops_all_threads_of_its_process(client: ClientAPI) -> None:
    """Another thread gets no turn for most of the write, however long that takes."""
    done = threading.Event()
    pauses = [0.0]

    def tick() -> None:
        last = time.perf_counter()
        while not done.wait(0.001):
            now = time.perf_counter()
            pauses.append(now - last)
            last = now

    collection = new_collection(client)
    embeddings = np.random.default_rng(0).normal(size=(1000, 768)).astype(np.float32)
    thread = threading.Thread(target=tick)
    thread.start()
    started = time.perf_counter()
    collection.add(ids=[str(number) for number in range(1000)], embeddings=embeddings)
    took = time.perf_counter() - started
    time.sleep(0.01)  # for the thread to see that it is over
    done.set()
    thread.join()
    assert max(pauses) > took / 2


@shows(
    Quirk(
        name="two-processes-on-one-folder",
        summary=(
            "Two processes may open one folder. Queries of the one do not find what the other wrote, while `count` "
            "and `get` do."
        ),
        workaround="A lock on the folder; a second service is rejected.",
        works_around=("chroma_repair.data_lock:lock_data",),
        upstream="#3792: `Query` does not match `Get` on persistent DB accessed by two processes",
        stores=("embedded",),
    )
)
def test_two_processes_on_one_folder_find_different_documents(tmp_path: Path) -> None:
    client = persistent_client(tmp_path)
    collection = new_collection(client, name="shared")
    collection.add(ids=["mine"], embeddings=[[1.0, 0.0]])
    collection.query(query_embeddings=[[0.0, 1.0]])
    run_program(
        """
        collection = client.get_collection("shared", embedding_function=None)
        collection.add(ids=["theirs"], embeddings=[[0.0, 1.0]])
        """,
        tmp_path,
    )
    assert collection.get()["ids"] == ["mine", "theirs"]
    assert collection.query(query_embeddings=[[0.0, 1.0]], n_results=2)["ids"] == [["mine"]]


@shows(
    Quirk(
        name="a-kill-while-saving-damages-an-index",
        summary=(
            "An index is saved in place, after every 1,000 writes. A kill at that moment leaves files that Chroma "
            "cannot open. From then on all reads and writes of that collection fail, or crash the process, although "
            "all data is on the disk."
        ),
        workaround="The log is completed from the index's files, and Chroma makes the index again.",
        works_around=("chroma_repair", "ragstore.chroma.embedded.chroma_data:ChromaData"),
        upstream=(
            "#7238: HNSW Rust loader SIGSEGVs (exit 139) on truncated or graph-corrupt persisted segments instead "
            "of raising; #7678: SIGKILL during present-ID upsert replay can wedge compaction"
        ),
    )
)
@pytest.mark.parametrize("cut_off", ["header.bin", "index_metadata.pickle"])
def test_a_collection_whose_index_was_cut_off_cannot_be_read(tmp_path: Path, cut_off: str) -> None:
    """The state after a kill is made by cutting off a file as an unfinished save does. The server shares the code."""
    run_program(
        """
        collection = client.create_collection(
            "notes", configuration={"hnsw": {"sync_threshold": 20}}, embedding_function=None
        )
        collection.add(ids=[str(n) for n in range(30)], embeddings=[[n, 1] for n in range(30)], documents=["text"] * 30)
        """,
        tmp_path,
    )
    (file,) = tmp_path.glob(f"*/{cut_off}")
    content = file.read_bytes()
    assert content
    file.write_bytes(content[: len(content) // 2])
    program = """
        from chromadb.errors import InternalError

        collection = client.get_collection("notes", embedding_function=None)
        for call in (
            lambda: collection.get(limit=1),
            lambda: collection.query(query_embeddings=[[1, 1]]),
            lambda: collection.upsert(ids=["new"], embeddings=[[1, 1]]),
        ):
            try:
                call()
                print("done")
            except InternalError:
                print("failed")
        """
    with start_program(program, tmp_path) as process:
        output, _ = process.communicate(timeout=60)
    if process.returncode == 0:
        assert output.split() == ["failed"] * 3
    else:
        assert process.returncode == -signal.SIGSEGV


HANGS_AFTER: Final = 10.0
"""Seconds after which a program that otherwise takes two to four is considered hung."""

FULL_DISKS: Final = (50_000, 100_000, 8_192)
"""By how many bytes the largest file may still grow. At which step of a write Chroma fails depends on it."""


@dataclass
class FullDisk:
    """The behaviour of Chroma on disks that were full for a while.

    Attributes:
        hung: whether it hung once, although there was room again.
        done: whether a write that had failed was there once.
    """

    hung: bool = False
    done: bool = False


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> FullDisk:
    """Fill disks until both has been seen. Files that may not grow are as good as a full disk, and need no rights."""
    seen = FullDisk()
    for room in FULL_DISKS:
        folder = tmp_path_factory.mktemp("full")
        failed = _fill(folder, room, seen)
        found = run_program(
            'print(*client.get_collection("full", embedding_function=None).get()["ids"])', folder
        ).split()
        seen.done |= failed in found
        if seen.hung and seen.done:
            break
    return seen


def _fill(folder: Path, room: int, seen: FullDisk) -> str:
    """Let a program write until ten writes have failed, and then again with enough room.

    Returns:
        The id of the first write that failed.
    """
    program = f"""
        import os, resource, signal
        from pathlib import Path

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        collection = client.create_collection("full", embedding_function=None)

        def write(number):
            collection.upsert(ids=[str(number)], embeddings=[[float(number)] * 8], documents=["text " * 400])

        for number in range(5):
            write(number)
        largest = max(file.stat().st_size for file in Path(sys.argv[1]).rglob("*") if file.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + {room}, resource.RLIM_INFINITY))
        failures = 0
        for number in range(5, 1000):
            try:
                write(number)
            except Exception:
                failures += 1
                if failures == 1:
                    print(number, flush=True)
                if failures == 10:
                    break
                try:
                    collection.get()
                except Exception:
                    pass
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        write(1000)
        os._exit(0)
        """
    with start_program(program, folder) as process:
        try:
            process.wait(HANGS_AFTER)
        except TimeoutExpired:
            seen.hung = True
            process.kill()
        assert process.stdout is not None
        return process.stdout.read().strip()


@shows(
    Quirk(
        name="a-full-disk-hangs",
        summary=(
            "On a full disk embedded Chroma hangs permanently, even after space is freed: after one to ten failed "
            "writes in 8 of 8 runs. In 3 of 14 runs it acknowledged writes before that, and never committed them."
        ),
        workaround=(
            "After an error of its database, the data is closed and opened again. "
            "A process that completes no call within `RAGSTORE_CHROMA_TIMEOUT_SECONDS` is killed and started again."
        ),
        works_around=(
            "ragstore.chroma.embedded.chroma_data:DATABASE_FAILED",
            "ragstore.chroma.embedded.backend:_replace_hung_process",
        ),
        stores=("embedded",),
    )
)
def test_after_a_full_disk_chroma_hangs(full_disk: FullDisk) -> None:
    assert full_disk.hung


@shows(
    Quirk(
        name="a-failed-write-is-done",
        summary="A write may fail on a full disk and be done all the same.",
        workaround="Adds carry a token also in embedded Chroma, so that a second attempt is no conflict.",
        works_around=("ragstore.chroma.embedded.process:_add_records",),
        stores=("embedded",),
    )
)
def test_a_write_that_failed_on_a_full_disk_is_done(full_disk: FullDisk) -> None:
    assert full_disk.done


@shows(
    Quirk(
        name="no-timeout-in-the-asynchronous-client",
        summary="`AsyncHttpClient` has no timeout and no limit of connections, and offers no setting for either.",
        workaround="Chroma's HTTP API is called with aiohttp.",
        works_around=("ragstore.chroma.http.backend",),
        stores=("server",),
    )
)
async def test_the_asynchronous_client_has_no_timeout(server: Served) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    client = await chromadb.AsyncHttpClient(host, int(port))
    api = client._server  # type: ignore[attr-defined]  # private: there is no other way to see it
    assert isinstance(api, AsyncFastAPI)
    (http,) = api._clients.values()
    try:
        assert (http.timeout.connect, http.timeout.read, http.timeout.write, http.timeout.pool) == (None,) * 4
        assert not {"timeout", "limits"} & set(inspect.signature(chromadb.AsyncHttpClient).parameters)
    finally:
        await http.aclose()


@shows(
    Quirk(
        name="embedding-function-by-default",
        summary="A collection gets an embedding function by default, which downloads a model when it is first used.",
        workaround="Chroma's inner API is called, which has no embedding functions.",
        works_around=("ragstore.chroma.embedded.api",),
    )
)
def test_a_collection_has_an_embedding_function_by_default(client: ClientAPI) -> None:
    default = inspect.signature(client.create_collection).parameters["embedding_function"].default
    assert type(default).__name__ == "DefaultEmbeddingFunction"
