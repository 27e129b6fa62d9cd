"""Documents per second and processor time of ingestion, side by side with bare loops over Chroma.

    python -m benchmarks.ingestion --texts 1000 --langchain PYTHON

Loads: small texts of 1 kB, one by one and in batches; PDF files of ten pages; one large text of 5 MB; and a website on
loopback, whose pages one run of a source reads. All rows have the same server of embeddings, which responds
immediately, or after `--embedding-seconds`. The loops are programs of their own: Chroma in batches of 256 chunks,
without metadata and with the metadata that a gateway stores; and LangChain over Chroma, one by one and in batches of
1,000, by a Python that has `langchain-chroma` and `chromadb`.
Processor time is measured for the gateways with the processes that they have started, or for the loop, without the
server of embeddings, PostgreSQL, and the store beside it. A load with a size of 0 is left out. With
`--embedding-seconds`, the loops are left out, which send one request after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from benchmarks.chroma_loop import run_loop
from tests.gateway.extraction.documents import pdf
from tests.support.changing_site import ChangingSite, changing_site
from tests.support.gateways import start_gateway
from tests.support.ingestion import Base, EmbeddingServer, embedding_server
from tests.support.postgres import running_postgres
from tests.support.servers import Served, running, start_service
from tests.support.sources import NAME, SourceBase, put_pages

WORDS: Final = ("tea", "water", "leaf", "brew", "minute", "kettle", "boil", "cool", "green", "black", "river", "bridge")
CHUNKING: Final = {"chunkStrategy": "window", "chunkSize": 400, "chunkOverlap": 0}
SMALL_CHARACTERS: Final = 1000
CONCURRENCY: Final = 16
"""Number of uploads in flight."""

BATCH: Final = 64
"""Number of documents of a request with many, as `kb ingest` sends them."""

DATABASES: Final = ("sqlite", "postgresql")
NDJSON: Final = "application/x-ndjson"
PDF_PAGES: Final = 10
PDF_LINES: Final = 33
PDF_LINE_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        name: what was measured.
        documents: number of documents.
        chunks: number of their chunks.
        seconds: time until the last one was complete.
        cpu: processor time in seconds.
        accepted: times of the requests that sent the documents, in seconds.
    """

    name: str
    documents: int
    chunks: int
    seconds: float
    cpu: float
    accepted: Sequence[float] = ()

    def __str__(self) -> str:
        times = sorted(self.accepted) or [0.0]
        return (
            f"| {self.name} | {self.documents} | {self.documents / self.seconds:.1f} | "
            f"{1000 * self.cpu / self.documents:.1f} ms | {1000 * self.cpu / self.chunks:.2f} ms | "
            f"{1000 * times[len(times) // 2]:.0f} ms | {1000 * times[len(times) * 99 // 100]:.0f} ms |"
        )


def texts_of(count: int, characters: int) -> list[str]:
    """Texts of random words.

    Args:
        characters: the length of each.
    """
    generator = random.Random(3)  # noqa: S311  # no secret
    return [
        " ".join(generator.choice(WORDS) for _ in range(characters // 4))[: characters - 10] + f" {number:9}"
        for number in range(count)
    ]


def cpu_of(pids: Sequence[int]) -> float:
    """The processor time of processes and of all that they have started, in seconds."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    chosen = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in chosen} - chosen:
        chosen |= more
    total = 0.0
    for pid in chosen:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # With what children that have ended used.
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


@contextmanager
def gateways(folder: Path, database: str, processes: int, allow_hosts: str = "") -> Iterator[list[Served]]:
    """Gateways over one database.

    Args:
        folder: an empty folder.
        database: `sqlite`, with a store in the process of the gateway, or `postgresql`, with a store beside them.
        processes: number of gateways.
        allow_hosts: hosts on loopback that may be fetched.
    """
    with ExitStack() as stack:
        environ = {"RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0", "RAGSTORE_GATEWAY_ALLOW_HOSTS": allow_hosts}
        if database == "postgresql":
            (folder / "store").mkdir()
            store = start_service(folder / "store", {"RAGSTORE_RESERVED_PREFIXES": "none"})
            environ["RAGSTORE_URL"] = stack.enter_context(running(store)).url
            environ["RAGSTORE_GATEWAY_DATABASE_URL"] = stack.enter_context(running_postgres()).create_database()
        served = []
        for number in range(processes):
            (folder / str(number)).mkdir()
            served.append(stack.enter_context(running(start_gateway(folder / str(number), environ))))
        yield served


@dataclass(frozen=True, slots=True)
class Load:
    """Documents that each gateway ingests.

    Attributes:
        name: what they are.
        documents: their contents.
        texts: the same for a loop; empty if it cannot read them.
        per_request: number of documents of a request.
        per_second: number of documents that are sent each second; 0 for requests that follow each other.
    """

    name: str
    documents: Sequence[bytes]
    media_type: str = "text/plain"
    texts: Sequence[str] = ()
    per_request: int = 1
    per_second: float = 0.0

    @property
    def pause_seconds(self) -> float:
        """The time from one request to the next one; 0 for requests that follow each other."""
        return self.per_request / self.per_second if self.per_second else 0.0


def loads_of(options: argparse.Namespace) -> Iterator[Load]:
    """The loads, without the website."""
    small = texts_of(options.texts, SMALL_CHARACTERS)
    contents = [text.encode() for text in small]
    if small:
        yield Load("small", contents, texts=small)
        yield Load("small, in batches", contents, per_request=BATCH)
        if options.per_second:
            name = f"small, {options.per_second:g} a second"
            yield Load(name, contents, per_second=options.per_second)
    if options.pdfs:
        yield Load("PDF", list(pdfs_of(options.pdfs)), "application/pdf")
    if options.large_bytes:
        large = texts_of(1, options.large_bytes)
        yield Load("large", [text.encode() for text in large], texts=large)


def pdfs_of(count: int) -> Iterator[bytes]:
    """PDF files of ten pages of text."""
    lines = PDF_PAGES * PDF_LINES
    for text in texts_of(count, lines * PDF_LINE_CHARACTERS):
        shown = [text[start : start + PDF_LINE_CHARACTERS] for start in range(0, len(text), PDF_LINE_CHARACTERS)]
        pages = [
            " T* ".join(f"({line}) Tj" for line in shown[at : at + PDF_LINES]) for at in range(0, lines, PDF_LINES)
        ]
        yield pdf([f"BT /F1 9 Tf 20 TL 40 760 Td {page} ET" for page in pages])


async def of_gateway(name: str, served: Sequence[Served], load: Load, url: str) -> Row:
    """Measure gateways.

    Args:
        name: name of the row.
        served: the gateways. The documents are sent to the first one.
        url: the server of embeddings.
    """
    async with httpx.AsyncClient(base_url=served[0].url, timeout=120) as client:
        provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": url}}
        base = await Base.create(client, name=name, **provider, **CHUNKING)
        await base.completed("first", "tea")
        pids = [each.process.pid for each in served]
        started, cpu = time.perf_counter(), cpu_of(pids)
        slots = asyncio.Semaphore(CONCURRENCY)
        accepted: list[float] = []

        async def send(number: int, first: int) -> list[str]:
            contents = load.documents[first : first + load.per_request]
            await asyncio.sleep(started + number * load.pause_seconds - time.perf_counter())
            due = time.perf_counter()
            async with slots:
                # Sent at a fixed rate, a request that waits for another one has waited for the gateway.
                before = due if load.per_second else time.perf_counter()
                if load.per_request > 1:
                    ingestions = await ingest_batch(base, first, contents)
                else:
                    ingestions = [await base.ingest(f"doc {first}", contents[0], load.media_type)]
                accepted.append(time.perf_counter() - before)
                return ingestions

        count = len(load.documents)
        sent = await asyncio.gather(*(send(*each) for each in enumerate(range(0, count, load.per_request))))
        chunks = 0
        for ended in [await base.ended(each, 1800) for ingestions in sent for each in ingestions]:
            assert ended["status"] == "completed", ended  # noqa: S101  # the figures would be wrong
            chunks += ended["chunks"]
        return Row(name, count, chunks, time.perf_counter() - started, cpu_of(pids) - cpu, accepted)


async def ingest_batch(base: Base, first: int, contents: Sequence[bytes]) -> list[str]:
    """Send texts with one request.

    Args:
        first: number of the first one.

    Returns:
        The ids of their ingestions.
    """
    documents = [{"documentName": f"doc {first + at}", "text": each.decode()} for at, each in enumerate(contents)]
    lines = "\n".join(json.dumps(document) for document in documents)
    response = await base.client.post(f"{base.path}/ingest/batch", content=lines, headers={"Content-Type": NDJSON})
    response.raise_for_status()
    return [outcome["ingestionId"] for outcome in response.json()["documents"]]


async def of_website(name: str, served: Served, site: ChangingSite, embeddings: EmbeddingServer) -> Row:
    """Measure a run of a source, from its request to its end.

    Args:
        name: name of the row.
        site: the website.
    """
    async with httpx.AsyncClient(base_url=served.url, timeout=120) as client:
        web = {"startUrl": f"{site.origin}/", "requestDelayMs": 0, "maxPages": 50_000}
        base = await SourceBase.follow(client, embeddings, {"name": NAME, "web": web}, **CHUNKING)
        pids = [served.process.pid]
        started, cpu = time.perf_counter(), cpu_of(pids)
        run_id = await base.begin()
        while (run := await base.read_run(run_id))["status"] == "running":  # noqa: ASYNC110  # another process ends it
            await asyncio.sleep(0.2)
        return Row(name, run["added"], run["chunks"], time.perf_counter() - started, cpu_of(pids) - cpu)


def loops_of(langchain: str) -> Iterator[tuple[str, str, str]]:
    """The loops: the kind of each, its title, and its interpreter.

    Args:
        langchain: a Python with langchain-chroma; empty for none.
    """
    yield "chroma", "Chroma", sys.executable
    yield "chroma-metadata", "Chroma with metadata", sys.executable
    if langchain:
        yield "langchain", "LangChain in batches", langchain
        yield "langchain-single", "LangChain one by one", langchain


def of_loop(name: str, kind: str, python: str, load: Load, url: str) -> Row:
    """Measure a loop over Chroma.

    Args:
        name: name of the row.
        kind: as in `run_loop`.
        python: the interpreter.
        url: the server of embeddings.
    """
    found = run_loop(kind, python, load.texts, url)
    return Row(name, len(load.texts), found.chunks, found.seconds, found.cpu)


def comparisons(rows: Mapping[str, Row]) -> Iterator[str]:
    """Compare rows.

    Args:
        rows: the rows by their names.
    """

    def rate(name: str) -> float:
        return rows[name].documents / rows[name].seconds

    def cpu(name: str) -> float:
        return rows[name].cpu / rows[name].chunks

    for database in DATABASES:
        for load in ("small", "small, in batches"):
            one = f"gateway, {database}, 1, {load}"
            if one in rows and "Chroma, small" in rows:
                yield f"{one}: {rate(one) / rate('Chroma, small'):.3f} of the rate of Chroma"
        one, two = (f"gateway, {database}, {count}, small" for count in (1, 2))
        if one in rows and two in rows:
            yield f"{two}: {rate(two) / rate(one):.2f} times the rate of one process"
        large = f"gateway, {database}, 1, large"
        for loop in ("Chroma", "Chroma with metadata"):
            if large in rows and f"{loop}, large" in rows:
                times = cpu(large) / cpu(f"{loop}, large")
                yield f"{large}: {times:.2f} times the processor time of {loop} for a chunk"


async def measure(options: argparse.Namespace) -> None:
    """Measure everything, and print the table and its comparisons."""
    print("| | documents | documents/s | CPU a document | CPU a chunk | 202 after, median | 99 % |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows: dict[str, Row] = {}

    def add(row: Row) -> None:
        rows[row.name] = row
        print(row, flush=True)

    async with embedding_server(options.embedding_seconds) as embeddings:
        for load in loads_of(options):
            if load.texts and not options.embedding_seconds:
                for kind, title, python in loops_of(options.langchain):
                    # Chroma rejects a call with all chunks of a large text, which one by one would be.
                    if kind != "langchain-single" or len(load.texts) > 1:
                        name = f"{title}, {load.name}"
                        add(await asyncio.to_thread(of_loop, name, kind, python, load, embeddings.url))
            for database in options.databases:
                for count in options.processes if database == "postgresql" else [1]:
                    with tempfile.TemporaryDirectory() as folder, gateways(Path(folder), database, count) as served:
                        add(
                            await of_gateway(f"gateway, {database}, {count}, {load.name}", served, load, embeddings.url)
                        )
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        if options.pages:
            with changing_site() as site:
                put_pages(site, *(f"page-{number}" for number in range(options.pages)))
                for database in options.databases:
                    with (
                        tempfile.TemporaryDirectory() as folder,
                        gateways(Path(folder), database, 1, f"127.0.0.1:{site.port}") as served,
                    ):
                        add(await of_website(f"website, {database}", served[0], site, embeddings))
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    for comparison in comparisons(rows):
        print(comparison)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--pdfs", type=int, default=100)
    parser.add_argument("--large-bytes", type=int, default=5_000_000)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--embedding-seconds", type=float, default=0.0, help="time of a response of the embeddings")
    parser.add_argument("--per-second", type=float, default=0.0, help="also send small texts at this rate")
    parser.add_argument("--langchain", default="", help="a Python with langchain-chroma")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
