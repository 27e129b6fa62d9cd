"""Measures a gateway with many knowledge bases: its memory while it is idle, and searches over several bases.

    python -m benchmarks.bases --bases 1000 --documents 100 --searched 1 10 60

One gateway with the store in its process, SQLite and `builtin/wordllama` ingests the documents, of one chunk each. It
is started again on its data before memory is measured, since filling leaves a larger heap. `POST /ragstore/retrieve`
with an assistant over some bases is measured for questions that are all different.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

import httpx

from benchmarks.sizes import chroma_pid, memory
from ragstore_client.gateway import GatewayClient, KnowledgeBase, Stored, TextDocument
from tests.support.gateways import start_gateway
from tests.support.servers import Served, running

WORDS: Final = ("tea", "water", "leaf", "brew", "minute", "kettle", "boil", "cool", "green", "black", "river", "bridge")
TEXT_WORDS: Final = 30
QUESTIONS: Final = 20
SENDERS: Final = 4
IDLE_SECONDS: Final = 30.0
ENVIRON: Final = {"RAGSTORE_GATEWAY_LOG_LEVEL": "warning", "RAGSTORE_LOG_LEVEL": "warning"}


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


def report_searches(url: str, searched: Sequence[int]) -> None:
    """Print the times of searches over several bases.

    Args:
        searched: numbers of bases of an assistant.
    """
    generator = random.Random(-1)  # noqa: S311  # no secret
    with httpx.Client(base_url=url, timeout=120) as client:
        for count in searched:
            assistant = {
                "name": f"over-{count}",
                "workflow": [f"base-{number}" for number in range(count)],
                "tasks": [{"id": "all", "enableWorkflowRag": True}],
            }
            times = []
            for number in range(QUESTIONS + 1):
                question = {"question": f"{text_of(generator)} {number}", "assistant": assistant}
                began = time.perf_counter()
                response = client.post("/ragstore/retrieve", json=question)
                times.append(time.perf_counter() - began)
                response.raise_for_status()
                failed = [each for each in response.json()["searches"] if "error" in each]
                assert not failed, failed  # noqa: S101  # the figures would be wrong
            later = times[1:]
            print(
                f"| search of {count} bases | first {1000 * times[0]:.0f} ms | "
                f"median {1000 * median(later):.0f} ms | longest {1000 * max(later):.0f} ms |",
                flush=True,
            )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bases", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=100, help="number of documents of each base")
    parser.add_argument("--searched", type=int, nargs="+", default=[1, 10, 60], help="numbers of bases of a search")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(start_gateway(folder, ENVIRON)) as served:
            report_memory("without bases", served)
            fill(served.url, options.bases, options.documents)
        with running(start_gateway(folder, ENVIRON)) as served:
            report_memory(f"{options.bases} bases of {options.documents} documents, started again", served)
            report_searches(served.url, options.searched)
            report_memory("the same after these searches", served)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
