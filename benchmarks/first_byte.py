"""Measure the time to the first byte of a streamed chat: passed through, and with passages of a knowledge base.

    python -m benchmarks.first_byte [--chunks 10000] [--questions 200] [--rounds 3]

The base has chunks of the built-in model `builtin/wordllama`, whose embedding takes no time, so the rows differ by what
is searched: vectors or vectors and keywords, the last message or the conversation. The time that the gateway's default
model needs for a question is a row of its own. One caller sends one question after the other, each a new one, in front
of a model server that responds immediately. All rows are measured in turn in each round.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from benchmarks.gateway import model_server
from benchmarks.stream_clients import percentile
from tests.support.gateways import start_gateway
from tests.support.servers import running

BASE: Final = "first-byte"
SYLLABLES: Final = [f"{consonant}{vowel}" for consonant, vowel in product("bdfgklmnprstv", "ae")]
CHUNKS_OF_DOCUMENT: Final = 20
BATCH: Final = 50
"""Number of documents of one request."""

WORDS: Final = [f"{first}{second}{third}" for first, second, third in product(SYLLABLES, repeat=3)]
_WEIGHTS: Final = [1 / (rank + 2.7) for rank in range(len(WORDS))]
CHUNK_WORDS: Final = 60
QUESTION_WORDS: Final = 8

POLL_SECONDS: Final = 1.0
WARM: Final = 20
"""Number of chats before a row is measured."""

UNCHANGED: Final = "passed through"
ROWS: Final[Mapping[str, tuple[str, str]]] = {
    "vectors, last message": ("vector", "last"),
    "vectors and keywords, last message": ("hybrid", "last"),
    "vectors and keywords, conversation": ("hybrid", "conversation"),
}
"""How the base is searched in each row: `retrieval` of the base, `query` of the assistant."""


class Gateway:
    """A gateway with the base and its assistants.

    Args:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self._api = httpx.Client(base_url=url, timeout=120)
        parts = urlsplit(url)
        self._chats = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        self._numbers = count(1)
        self._body: dict[str, Any] = {
            "name": BASE,
            "embeddingProvider": "local",
            "embeddingParameters": {"model": "builtin/wordllama"},
            "chunkStrategy": "paragraph",
            "chunkOverlap": 0,
        }
        self._path = ""

    def fill(self, chunks: int) -> int:
        """Create the base and the assistants, and ingest documents; the number of chunks."""
        self._path = self._created("/ragstore/rags", self._body)
        for name, (_, query) in ROWS.items():
            tasks = [{"enableWorkflowRag": True}]
            assistant = {"name": _model(name), "model": "m", "query": query, "workflow": [BASE], "tasks": tasks}
            self._created("/ragstore/assistants", assistant)
        documents = list(_documents(chunks))
        for start in range(0, len(documents), BATCH):
            lines = "\n".join(json.dumps(each) for each in documents[start : start + BATCH])
            headers = {"Content-Type": "application/x-ndjson"}
            self._api.post(f"{self._path}/ingest/batch", content=lines, headers=headers).raise_for_status()
        while any(self._api.get(f"{self._path}/ingestions").json()[each] for each in ("waiting", "processing")):
            time.sleep(POLL_SECONDS)
        listed = self._api.get(f"{self._path}/documents?limit=1000").json()["documents"]
        return sum(each["chunks"] for each in listed)

    def search_by(self, retrieval: str) -> None:
        """Change how the base is searched. It holds for the next question."""
        version = self._api.get(self._path).headers["X-Resource-URI"].rpartition("=")[2]
        body = {**self._body, "retrieval": retrieval}
        self._api.put(f"{self._path}?version={version}", json=body).raise_for_status()

    def first_byte(self, model: str) -> float:
        """Ask a new question as a follow-up; the time to the first byte of the stream, in milliseconds."""
        number = next(self._numbers)
        texts = (_question(number * 7 + 3), _question(number))
        messages = [{"role": "user", "content": text} for text in texts]
        body = json.dumps({"model": model, "stream": True, "messages": messages})
        started = time.perf_counter()
        self._chats.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = self._chats.getresponse()
        response.read1(1)
        seconds = time.perf_counter() - started
        response.read()
        if response.status != http.HTTPStatus.OK or (model != "m" and response.headers["X-RAG-Sources"] == "0"):
            raise RuntimeError(f"A chat with {model} had status {response.status}, or no sources")
        return seconds * 1000

    def embedding(self) -> float:
        """The time of one request for the vector of a new question by the default model, in milliseconds."""
        started = time.perf_counter()
        text = _question(next(self._numbers))
        self._api.post("/v1/embeddings", json={"input": text, "model": ""}).raise_for_status()
        return (time.perf_counter() - started) * 1000

    def _created(self, path: str, body: Mapping[str, Any]) -> str:
        response = self._api.post(path, json=body)
        response.raise_for_status()
        return response.headers["Location"].partition("?")[0]


def _model(row: str) -> str:
    return row.replace(",", "").replace(" ", "-")


def _words(number: int, count: int) -> list[str]:
    """Words with the frequencies of a language (Zipf), always the same ones for a number."""
    return random.Random(number).choices(WORDS, _WEIGHTS, k=count)  # noqa: S311 - a sample


def _question(number: int) -> str:
    return " ".join(_words(-number, QUESTION_WORDS)) + "?"


def _documents(chunks: int) -> Iterator[dict[str, str]]:
    for first in range(0, chunks, CHUNKS_OF_DOCUMENT):
        paragraphs = (
            " ".join(_words(number + 1, CHUNK_WORDS))
            for number in range(first, min(first + CHUNKS_OF_DOCUMENT, chunks))
        )
        yield {"documentName": f"document-{first}.txt", "text": "\n\n".join(paragraphs)}


def measure(gateway: Gateway, questions: int, rounds: int) -> dict[str, list[float]]:
    """The times of all rows."""
    found: dict[str, list[float]] = {name: [] for name in (UNCHANGED, *ROWS, "vector of a question, default model")}
    for _ in range(rounds):
        for name in (UNCHANGED, *ROWS):
            model = "m"
            if name != UNCHANGED:
                gateway.search_by(ROWS[name][0])
                model = f"rag/{_model(name)}"
            for _ in range(WARM):
                gateway.first_byte(model)
            found[name] += [gateway.first_byte(model) for _ in range(questions)]
        found["vector of a question, default model"] += [gateway.embedding() for _ in range(questions)]
    return found


def table(found: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """The lines of the table."""
    yield "| first byte | p50 | p99 |"
    yield "| --- | --- | --- |"
    for name, times in found.items():
        yield f"| {name} | {statistics.median(times):.1f} ms | {percentile(list(times), 99):.1f} ms |"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=200, help="number of questions of each row in each round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with model_server(folder) as model:
            environ = {"RAGSTORE_GATEWAY_UPSTREAM_URL": f"{model.url}/v1"}
            with running(start_gateway(folder, environ)) as served:
                gateway = Gateway(served.url)
                print(f"{gateway.fill(options.chunks):,} chunks\n", flush=True)
                print("\n".join(table(measure(gateway, options.questions, options.rounds))))


if __name__ == "__main__":
    main()
