"""Documents per second and processor time of ingestion, side by side with bare loops over Chroma.

    python -m benchmarks.ingestion --texts 1000 --langchain PYTHON

A website on loopback has the pages, which one run of a source reads. All other rows have the same texts, and all
rows the same server of embeddings, which responds immediately. Small texts have 1 kB; the large one has 5 MB. The loops
are programs of their own: Chroma in batches of 256 chunks, and LangChain over Chroma one by one and in batches of
1,000, by a Python that has `langchain-chroma` and `chromadb`. Processor time is measured for the gateways with the
processes that they have started, or for the loop, without the server of embeddings and PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

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

LOOP: Final = """
import json, sys, time
from urllib.request import Request, urlopen

kind, folder, url, path = sys.argv[1:]
texts = json.loads(open(path).read())

def chunks_of(text):
    return [text[start : start + 400] for start in range(0, len(text), 400)]

def embed(batch):
    body = json.dumps({"inputs": batch}).encode()
    return json.loads(urlopen(Request(url + "/embed", body, {"Content-Type": "application/json"})).read())

if kind == "chroma":
    import chromadb
    client = chromadb.PersistentClient(folder)
    hnsw = {"space": "cosine", "max_neighbors": 64, "ef_construction": 300, "ef_search": 400}
    collection = client.create_collection("texts", configuration={"hnsw": hnsw}, embedding_function=None)
    def add(batch, first):
        vectors = [vector for start in range(0, len(batch), 32) for vector in embed(batch[start : start + 32])]
        collection.add([f"{first + number}" for number in range(len(batch))], vectors, documents=batch)
    size = 256
else:
    from langchain_chroma import Chroma
    from langchain_core.embeddings import Embeddings
    class Served(Embeddings):
        def embed_documents(self, texts):
            return [vector for start in range(0, len(texts), 32) for vector in embed(texts[start : start + 32])]
        def embed_query(self, text):
            return embed([text])[0]
    store = Chroma("texts", Served(), persist_directory=folder)
    def add(batch, first):
        store.add_texts(batch)
    size = 1000 if kind == "langchain" else 0
add(["warm"], -1)
started, cpu = time.perf_counter(), time.process_time()
count = 0
if size:
    chunks = [chunk for text in texts for chunk in chunks_of(text)]
    for start in range(0, len(chunks), size):
        add(chunks[start : start + size], start)
    count = len(chunks)
else:
    for text in texts:
        chunks = chunks_of(text)
        add(chunks, count)
        count += len(chunks)
print(json.dumps({"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, "chunks": count}))
"""


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


async def of_gateway(name: str, served: Sequence[Served], texts: Sequence[str], url: str) -> Row:
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

        async def send(number: int, text: str) -> str:
            async with slots:
                before = time.perf_counter()
                ingestion = await base.ingest(f"doc {number}", text)
                accepted.append(time.perf_counter() - before)
                return ingestion

        ids = await asyncio.gather(*(send(number, text) for number, text in enumerate(texts)))
        chunks = sum([(await base.ended(each, 1800))["chunks"] for each in ids])
        return Row(name, len(texts), chunks, time.perf_counter() - started, cpu_of(pids) - cpu, accepted)


async def of_website(name: str, served: Served, site: ChangingSite, embeddings: EmbeddingServer) -> Row:
    """Measure a run of a source, from its request to its end.

    Args:
        name: name of the row.
        site: the website.
    """
    async with httpx.AsyncClient(base_url=served.url, timeout=120) as client:
        source = {"name": NAME, "web": {"startUrl": f"{site.origin}/", "requestDelayMs": 0}}
        base = await SourceBase.follow(client, embeddings, source, **CHUNKING)
        pids = [served.process.pid]
        started, cpu = time.perf_counter(), cpu_of(pids)
        run_id = await base.begin()
        while (run := await base.read_run(run_id))["status"] == "running":  # noqa: ASYNC110  # another process ends it
            await asyncio.sleep(0.2)
        return Row(name, run["added"], run["chunks"], time.perf_counter() - started, cpu_of(pids) - cpu)


def of_loop(name: str, kind: str, python: str, texts: Sequence[str], url: str) -> Row:
    """Measure a loop over Chroma.

    Args:
        name: name of the row.
        kind: `chroma`, `langchain`, or `langchain-single`.
        python: the interpreter.
        url: the server of embeddings.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts))
        command = [python, "-c", LOOP, kind, str(Path(folder) / "chroma"), url, str(path)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return Row(name, len(texts), found["chunks"], found["seconds"], found["cpu"])


async def measure(options: argparse.Namespace) -> None:
    """Measure everything, and print the table."""
    small, large = texts_of(options.texts, SMALL_CHARACTERS), texts_of(1, options.large_bytes)
    print("| | documents | documents/s | CPU a document | CPU a chunk | 202 after, median | 99 % |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    async with embedding_server() as embeddings:
        for kind, texts in (("small", small), ("large", large)):
            if not texts or (kind == "large" and not options.large_bytes):
                continue
            row = await asyncio.to_thread(of_loop, f"Chroma, {kind}", "chroma", sys.executable, texts, embeddings.url)
            print(row, flush=True)
            for each, name in (("langchain", "in batches"), ("langchain-single", "one by one")):
                if options.langchain:
                    title = f"LangChain {name}, {kind}"
                    print(await asyncio.to_thread(of_loop, title, each, options.langchain, texts, embeddings.url))
            for database in options.databases:
                for count in options.processes if database == "postgresql" else [1]:
                    with tempfile.TemporaryDirectory() as folder, gateways(Path(folder), database, count) as served:
                        title = f"gateway, {database}, {count}, {kind}"
                        print(await of_gateway(title, served, texts, embeddings.url), flush=True)
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        if options.pages:
            with changing_site() as site:
                put_pages(site, *(f"page-{number}" for number in range(options.pages)))
                for database in options.databases:
                    with (
                        tempfile.TemporaryDirectory() as folder,
                        gateways(Path(folder), database, 1, f"127.0.0.1:{site.port}") as served,
                    ):
                        print(await of_website(f"website, {database}", served[0], site, embeddings), flush=True)
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--large-bytes", type=int, default=5_000_000)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--langchain", default="", help="a Python with langchain-chroma")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
