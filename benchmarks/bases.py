"""Measures a gateway with many knowledge bases: its memory while it is idle, and searches over several bases.

    python -m benchmarks.bases --bases 1000 --documents 100 --searched 1 10 60

One gateway with the store in its process, SQLite and `builtin/wordllama` ingests the documents, of one chunk each. It
is started again on its data before memory is measured, since filling leaves a larger heap. `POST /ragstore/retrieve`
with an assistant over some bases is measured for questions that are all different. The first one loads the collections.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

import httpx

from benchmarks.ingestion import cpu_of
from benchmarks.sizes import chroma_pid, memory
from ragstore_client.gateway import GatewayClient, KnowledgeBase, Stored, TextDocument
from tests.support.gateways import start_gateway
from tests.support.servers import Served, running

WORDS: Final = ("tea", "water", "leaf", "brew", "minute", "kettle", "boil", "cool", "green", "black", "river", "bridge")
TEXT_WORDS: Final = 30
QUESTIONS: Final = 20
SENDERS: Final = 4
IDLE_SECONDS: Final = 30.0
ENVIRON: Final = {
    "RAGSTORE_GATEWAY_LOG_LEVEL": "warning",
    "RAGSTORE_LOG_LEVEL": "warning",
    # Longer than the default of 6 s: the first search after a start has a time, too, and not only a time-out.
    "RAGSTORE_GATEWAY_RAG_TIMEOUT_SECONDS": "120",
    "RAGSTORE_GATEWAY_REQUEST_TIMEOUT_SECONDS": "180",
}


def text_of(generator: random.Random) -> str:
    """A text of random words."""
    return " ".join(generator.choice(WORDS) for _ in range(TEXT_WORDS))


def fill(url: str, bases: int, documents: int) -> None:
    """Create the bases and their documents.

    Args:
        documents: number of documents of each base.
    """
    with GatewayClient(url, timeout=300) as client:

        def one(number: int) -> Stored[KnowledgeBase]:
            generator = random.Random(number)  # noqa: S311  # no secret
            base = client.bases.create(KnowledgeBase(name=f"base-{number}", min_score=0.0))
            texts = [TextDocument(f"doc {at}", f"{text_of(generator)} {number} {at}") for at in range(documents)]
            client.ingest_all(base, texts).raise_for_failures()
            return base

        with ThreadPoolExecutor(SENDERS) as pool:
            began = time.perf_counter()
            for number, _ in enumerate(pool.map(one, range(bases)), 1):
                if number % 100 == 0:
                    print(f"{number} bases after {time.perf_counter() - began:.0f} s", flush=True)


def report_memory(name: str, served: Served) -> None:
    """Print the memory of a gateway that is idle, and of Chroma."""
    time.sleep(IDLE_SECONDS)
    gateway, chroma = (memory(pid, "VmRSS") for pid in (served.process.pid, chroma_pid(served, None)))
    print(f"| {name} | {gateway:.0f} MiB | {chroma:.0f} MiB |", flush=True)


def report_searches(served: Served, searched: Sequence[int]) -> None:
    """Print the times of searches over several bases, and the processor time of the gateway and Chroma.

    Args:
        searched: numbers of bases of an assistant, in the order of the searches.
    """
    generator = random.Random(-1)  # noqa: S311  # no secret
    pids = [served.process.pid, chroma_pid(served, None)]
    for count in searched:
        assistant = {
            "name": f"over-{count}",
            "workflow": [f"base-{number}" for number in range(count)],
            "tasks": [{"id": "all", "enableWorkflowRag": True}],
        }

        def search(number: int, assistant: Mapping[str, object] = assistant) -> tuple[float, float, int]:
            """The time and the processor time of a search in ms, and the number of bases that were not searched."""
            question = {"question": f"{text_of(generator)} {number}", "assistant": assistant}
            began, used = time.perf_counter(), cpu_of(pids)
            response = httpx.post(f"{served.url}/ragstore/retrieve", json=question, timeout=200)
            took = time.perf_counter() - began
            response.raise_for_status()
            missing = sum("error" in each for each in response.json()["searches"])
            return 1000 * took, 1000 * (cpu_of(pids) - used), missing

        first = search(0)
        later = [search(number) for number in range(1, QUESTIONS + 1)]
        times, cpu, missing = zip(*later, strict=True)
        print(
            f"| {count} bases | first {first[0]:.0f} ms, CPU {first[1]:.0f} ms, {first[2]} not searched | "
            f"median {median(times):.0f} ms, longest {max(times):.0f} ms, CPU {sum(cpu) / len(cpu):.0f} ms, "
            f"{sum(missing)} not searched |",
            flush=True,
        )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bases", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=100, help="number of documents of each base")
    parser.add_argument("--searched", type=int, nargs="+", default=[1, 10, 60], help="numbers of bases of a search")
    parser.add_argument("--folder", type=Path, help="where the data is kept; data that is there is not filled again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder: Path = options.folder or Path(name)
        if not (folder / "data").exists():
            folder.mkdir(parents=True, exist_ok=True)
            with running(start_gateway(folder, ENVIRON)) as served:
                report_memory("without bases", served)
                fill(served.url, options.bases, options.documents)
        with running(start_gateway(folder, ENVIRON)) as served:
            report_memory(f"{options.bases} bases of {options.documents} documents, started again", served)
            report_searches(served, options.searched)
            report_memory("the same after these searches", served)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
