"""Time of a search of a knowledge base, against a query of its collection at the store, of the same process.

    python -m benchmarks.base_searches --chunks 5000

A gateway with SQLite and the store in its process has two bases of random words, embedded by `builtin/wordllama`. One
client sends one request after the other, in turn for each row: the vector of a new question to the store, and a new
question to a base, by vectors, and to the other one, by vectors and keywords. The store's query is for as many results
as the search of a base. Processor time is measured for the gateway with the processes that it has started.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.first_byte import CHUNKS_OF_DOCUMENT, RandomTexts
from benchmarks.ingestion import cpu_of
from benchmarks.stream_clients import percentile
from ragstore_gateway.retrieval.hybrid_search import POOL
from ragstore_gateway.retrieval.visible_search import SPARE
from tests.support.gateways import FAST_MODEL, start_gateway
from tests.support.servers import Served, running

ROUND: Final = 50
"""Number of requests of a row in a row."""

STORE: Final = "query of the store"


class Searches:
    """Sends questions.

    Args:
        served: the gateway.
        chunks: number of chunks of a base.
    """

    def __init__(self, served: Served, chunks: int) -> None:
        self._api = httpx.Client(base_url=served.url, timeout=120)
        self._texts = RandomTexts(chunks)
        self._number = 0
        self._collection = ""

    def base(self, retrieval: str) -> str:
        """Create a base with documents. After a change of a base, its searches take longer for about a second.

        Args:
            retrieval: how the base is searched.

        Returns:
            The path of the base.
        """
        model = {"embeddingProvider": "local", "embeddingParameters": {"model": FAST_MODEL}}
        body = {"name": retrieval, "retrieval": retrieval, **model, **self._texts.splitting}
        path = self._send("/ragstore/rags", body).headers["Location"].partition("?")[0]
        for document in self._texts.documents():
            content = {"documentName": document["documentName"]}
            self._api.post(f"{path}/ingest", params=content, content=document["text"]).raise_for_status()
        while any(self._api.get(f"{path}/ingestions").json()[each] for each in ("waiting", "processing")):
            time.sleep(0.5)
        listed = self._api.get("/collections").raise_for_status().json()["collections"]
        self._collection = max(listed, key=lambda each: int(each["count"] or 0))["name"]
        return path

    def at_the_base(self, path: str) -> Callable[[], None]:
        """A function that sends a question to a base.

        Args:
            path: the path of the base.
        """
        # Made before: a question takes 0.7 ms.
        questions = iter([self._question() for _ in range(ROUND + 1)])
        return lambda: self._search(path, next(questions))

    def _search(self, path: str, question: str) -> None:
        self._send(f"{path}/query", {"query": question, "maxResults": 5})

    def at_the_store(self) -> Callable[[], None]:
        """A function that sends the vector of a question to the store, to the collection of one of the bases."""
        body = {"input": [self._question() for _ in range(ROUND + 1)], "model": FAST_MODEL}
        vectors = iter([each["embedding"] for each in self._send("/v1/embeddings", body).json()["data"]])
        path = f"/collections/{self._collection}/query"
        return lambda: self._query(path, next(vectors))

    def _query(self, path: str, vector: list[float]) -> None:
        self._send(path, {"query_embedding": vector, "top_k": POOL + SPARE})

    def _question(self) -> str:
        self._number += 1
        return self._texts.question(self._number)[1]

    def _send(self, path: str, body: dict[str, Any]) -> httpx.Response:
        response = self._api.post(path, json=body)
        return response.raise_for_status()


def measure(served: Served, chunks: int, rounds: int) -> None:
    """Measure the rows, and print them."""
    searches = Searches(served, chunks)
    vectors, both = searches.base("vector"), searches.base("hybrid")
    times: defaultdict[str, list[float]] = defaultdict(list)
    cpu: defaultdict[str, float] = defaultdict(float)
    for _ in range(rounds):
        for name, prepare in (
            (STORE, searches.at_the_store),
            ("base, by vectors", lambda: searches.at_the_base(vectors)),
            ("base, by vectors and keywords", lambda: searches.at_the_base(both)),
        ):
            send = prepare()
            send()
            before = cpu_of([served.process.pid])
            for _ in range(ROUND):
                started = time.perf_counter()
                send()
                times[name].append(1000 * (time.perf_counter() - started))
            cpu[name] += 1000 * (cpu_of([served.process.pid]) - before)
    print("| | median | 99 % | processor time | added to the store's median | to its processor time |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    own = percentile(times[STORE], 50)
    for name, values in times.items():
        median, each = percentile(values, 50), cpu[name] / len(values)
        print(
            f"| {name} | {median:.1f} ms | {percentile(values, 99):.1f} ms | {each:.1f} ms | "
            f"{median / own - 1:.2f} | {cpu[name] / cpu[STORE] - 1:.2f} |"
        )
    print(f"load {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=250 * CHUNKS_OF_DOCUMENT)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    environ = {"RAGSTORE_RESERVED_PREFIXES": "none", "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0"}
    with tempfile.TemporaryDirectory() as folder, running(start_gateway(Path(folder), environ)) as served:
        measure(served, options.chunks, options.rounds)


if __name__ == "__main__":
    main()
