"""Measure the time to the first byte of a streamed chat: passed through, and with passages of a knowledge base.

    python -m benchmarks.first_byte [--chunks 10000] [--questions 200] [--rounds 3] [--judged FOLDER]

With a folder of judged sets, its English sets have the texts and the questions. Otherwise both are random words. The
base has chunks of the built-in model `builtin/wordllama`, whose embedding takes no time, so the rows differ by what is
searched: vectors or vectors and keywords, the last message or the conversation. The time that the gateway's default
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
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from benchmarks.gateway import model_server
from benchmarks.retrieval import JudgedSet, read_set
from benchmarks.stream_clients import percentile
from tests.support.gateways import start_gateway
from tests.support.servers import running

BASE: Final = "first-byte"
SYLLABLES: Final = [f"{consonant}{vowel}" for consonant, vowel in product("bdfgklmnprstv", "ae")]
CHUNKS_OF_DOCUMENT: Final = 20
PAGE: Final = 1000
"""Number of documents of a page of the list."""

BATCH: Final = 50
"""Number of documents of one request."""

WORDS: Final = [f"{first}{second}{third}" for first, second, third in product(SYLLABLES, repeat=3)]
_WEIGHTS: Final = [1 / (rank + 2.7) for rank in range(len(WORDS))]
CHUNK_WORDS: Final = 60
QUESTION_WORDS: Final = 8

JUDGED_SETS: Final = ("cranfield", "cisi", "mtragun-dev", "xquad-en", "faq-en")
"""The sets with English texts: 4.8 MB together."""

JUDGED_CHUNK: Final = 750
"""Number of characters of a chunk of a real text. The sets have about 10,000 chunks of this size."""

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


class RandomTexts:
    """Documents and questions of words with the frequencies of a language (Zipf), the same ones in each run.

    Args:
        chunks: number of chunks of the documents together.
    """

    splitting: Final[Mapping[str, Any]] = {"chunkStrategy": "paragraph", "chunkOverlap": 0}

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    def documents(self) -> Iterator[dict[str, str]]:
        """The documents, as they are ingested."""
        for first in range(0, self._chunks, CHUNKS_OF_DOCUMENT):
            paragraphs = (
                " ".join(_words(number + 1, CHUNK_WORDS))
                for number in range(first, min(first + CHUNKS_OF_DOCUMENT, self._chunks))
            )
            yield {"documentName": f"document-{first}.txt", "text": "\n\n".join(paragraphs)}

    def question(self, number: int) -> tuple[str, str]:
        """An earlier question and a follow-up."""
        return _question(number * 7 + 3), _question(number)


class RealTexts:
    """Documents and questions of judged sets. See `RandomTexts`."""

    splitting: Final[Mapping[str, Any]] = {"chunkSize": JUDGED_CHUNK, "chunkOverlap": 0}

    def __init__(self, sets: Sequence[JudgedSet]) -> None:
        self._sets = sets
        pairs = [pair for each in sets for pair in pairwise(question.text for question in each.queries)]
        # Questions of one set in a row would search a part of the texts.
        random.Random(0).shuffle(pairs)  # noqa: S311 - a sample
        self._pairs = pairs

    def documents(self) -> Iterator[dict[str, str]]:
        """The documents, as they are ingested."""
        for number, each in enumerate(self._sets):
            for document in each.docs:
                yield {"documentName": f"{number}-{document.id}.txt", "text": document.content}

    def question(self, number: int) -> tuple[str, str]:
        """An earlier question and a follow-up."""
        return self._pairs[number % len(self._pairs)]


class Gateway:
    """A gateway with the base and its assistants.

    Args:
        url: its address.
        texts: the documents and the questions.
    """

    def __init__(self, url: str, texts: RandomTexts | RealTexts) -> None:
        self._texts = texts
        self._api = httpx.Client(base_url=url, timeout=120)
        parts = urlsplit(url)
        self._chats = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        self._numbers = count(1)
        self._body: dict[str, Any] = {
            "name": BASE,
            "embeddingProvider": "local",
            "embeddingParameters": {"model": "builtin/wordllama"},
            **texts.splitting,
        }
        self._path = ""

    def fill(self) -> int:
        """Create the base and the assistants, and ingest documents; the number of chunks."""
        self._path = self._created("/ragstore/rags", self._body)
        for name, (_, query) in ROWS.items():
            tasks = [{"enableWorkflowRag": True}]
            assistant = {"name": _model(name), "model": "m", "query": query, "workflow": [BASE], "tasks": tasks}
            self._created("/ragstore/assistants", assistant)
        documents = list(self._texts.documents())
        for start in range(0, len(documents), BATCH):
            lines = "\n".join(json.dumps(each) for each in documents[start : start + BATCH])
            headers = {"Content-Type": "application/x-ndjson"}
            self._api.post(f"{self._path}/ingest/batch", content=lines, headers=headers).raise_for_status()
        while any(self._api.get(f"{self._path}/ingestions").json()[each] for each in ("waiting", "processing")):
            time.sleep(POLL_SECONDS)
        listed = (
            self._api.get(f"{self._path}/documents", params={"limit": PAGE, "index": index}).json()["documents"]
            for index in range(len(documents) // PAGE + 1)
        )
        return sum(each["chunks"] for page in listed for each in page)

    def search_by(self, retrieval: str) -> None:
        """Change how the base is searched. It holds for the next question."""
        version = self._api.get(self._path).headers["X-Resource-URI"].rpartition("=")[2]
        body = {**self._body, "retrieval": retrieval}
        self._api.put(f"{self._path}?version={version}", json=body).raise_for_status()

    def first_byte(self, model: str) -> float:
        """Ask a new question as a follow-up; the time to the first byte of the stream, in milliseconds."""
        messages = [{"role": "user", "content": text} for text in self._texts.question(next(self._numbers))]
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
        _, text = self._texts.question(next(self._numbers))
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
    parser.add_argument("--judged", type=Path, help="folder of judged sets, whose texts are used")
    options = parser.parse_args()
    texts: RandomTexts | RealTexts = RandomTexts(options.chunks)
    if options.judged:
        texts = RealTexts([read_set(options.judged, each) for each in JUDGED_SETS])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with model_server(folder) as model:
            environ = {"RAGSTORE_GATEWAY_UPSTREAM_URL": f"{model.url}/v1"}
            with running(start_gateway(folder, environ)) as served:
                gateway = Gateway(served.url, texts)
                print(f"{gateway.fill():,} chunks\n", flush=True)
                print("\n".join(table(measure(gateway, options.questions, options.rounds))))


if __name__ == "__main__":
    main()
