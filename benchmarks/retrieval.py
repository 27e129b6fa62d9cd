"""Quality of the gateway's retrieval on judged sets, through a running gateway with its defaults.

`make bench-retrieval JUDGED=FOLDER` runs it, and prints the table of docs/knowledge-bases.md. The folder has a file
`NAME.json.gz` for each set: `{"docs": [{"id", "title", "text"}], "queries": [{"id", "text"}], "qrels": {query:
{document: grade}}}`. A document is a file of its title and its text, and has the rank of its best passage.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from ragstore_client.evaluation import Evaluation, Question, evaluate
from tests.support.gateways import start_gateway
from tests.support.servers import running

CONVERSATIONS: Final = "MTRAG-UN, conversation"
SETS: Final[Mapping[str, tuple[str, str]]] = {
    "Cranfield": ("cranfield", "cranfield"),
    "CISI": ("cisi", "cisi"),
    "XQuAD, English": ("xquad-en", "xquad-en"),
    "XQuAD, German": ("xquad-de", "xquad-de"),
    "XQuAD, German questions, English texts": ("xquad-en", "xquad-de"),
    "FAQ, English": ("faq-en", "faq-en"),
    "MTRAG-UN, last message": ("mtragun-dev", "mtragun-dev"),
    CONVERSATIONS: ("mtragun-dev", "mtragun-dev"),
}
"""The files of the documents and of the questions, by name."""

MODELS: Final = ("builtin/wordllama", "builtin/minilm")
RETRIEVALS: Final = ("keyword", "vector", "hybrid")
PASSAGES: Final = 40
"""Number of passages of a search: enough for ten documents."""

THREADS: Final = 4


class JudgedDocument(msgspec.Struct):
    """A document."""

    id: str
    text: str
    title: str | None = None

    @property
    def content(self) -> str:
        """The text, below its title if it has one."""
        return f"{self.title}\n\n{self.text}" if self.title else self.text


class Turn(msgspec.Struct):
    """A message of a conversation."""

    speaker: str
    text: str


class JudgedQuestion(msgspec.Struct):
    """A question, and the turns of its conversation: the question is the last one."""

    id: str
    text: str
    history: list[Turn] = []

    @property
    def earlier(self) -> list[str]:
        """The earlier messages of the user."""
        return [turn.text for turn in self.history[:-1] if turn.speaker == "user"]


class JudgedSet(msgspec.Struct):
    """Documents, questions, and the grades of the relevant documents by question."""

    docs: list[JudgedDocument]
    queries: list[JudgedQuestion]
    qrels: dict[str, dict[str, float]]


def read_set(folder: Path, name: str) -> JudgedSet:
    """Read a set."""
    return msgspec.json.decode(gzip.decompress((folder / f"{name}.json.gz").read_bytes()), type=JudgedSet)


class Bench:
    """A gateway, and what is measured on it.

    Args:
        http: a client of the gateway.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def base(self, name: str, **fields: Any) -> str:
        """Create a knowledge base; its path."""
        response = self._http.post("/ragstore/rags", json={"name": name, **fields})
        response.raise_for_status()
        return response.headers["Location"].partition("?")[0]

    def change(self, base: str, **fields: Any) -> None:
        """Write a new version of a base."""
        response = self._http.get(base)
        version = response.headers["X-Resource-URI"].rpartition("=")[2]
        self._http.put(f"{base}?version={version}", json={**response.json(), **fields}).raise_for_status()

    def ingest(self, base: str, documents: Sequence[JudgedDocument]) -> float:
        """Ingest documents, and wait for the last one.

        Returns:
            The time in seconds.
        """
        before, started = self._ended(), time.monotonic()
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda each: self._send(base, each), documents))
        while (self._ended() - before).total() < len(documents):
            time.sleep(0.5)
        return time.monotonic() - started

    def _send(self, base: str, document: JudgedDocument) -> None:
        while True:
            response = self._http.post(
                base + "/ingest",
                params={"documentName": document.id},
                content=document.content.encode(),
                headers={"Content-Type": "text/plain"},
            )
            if response.status_code not in (429, 503):
                response.raise_for_status()
                return
            time.sleep(1)

    def _ended(self) -> Counter[str]:
        """The number of ingestions that ended, by outcome."""
        lines = self._http.get("/metrics").text.splitlines()
        name = "ragstore_gateway_ingestions_total"
        found = [line.rpartition(" ") for line in lines if line.startswith(name + "{")]
        return Counter({labels: int(float(value)) for labels, _, value in found})

    def found(self, base: str, question: str, earlier: Sequence[str]) -> list[str]:
        """The documents that are found, the best one first."""
        body = {"query": question, "earlier": earlier, "maxResults": PASSAGES}
        response = self._http.post(base + "/query", json=body)
        response.raise_for_status()
        return [str(hit["metadata"]["document_name"]) for hit in response.json()["results"]]

    def evaluated(self, base: str, questions: Sequence[Question], earlier: Mapping[str, Sequence[str]]) -> Evaluation:
        """The quality for questions.

        Args:
            earlier: the earlier messages of a conversation, by the id of the question.
        """
        with ThreadPoolExecutor(THREADS) as threads:
            rankings = list(threads.map(lambda each: self.found(base, each.text, earlier.get(each.id, ())), questions))
        return evaluate(questions, rankings)


@contextmanager
def started(folder: Path) -> Iterator[Bench]:
    """A gateway with its defaults."""
    environ = {"RAGSTORE_GATEWAY_INGESTION_MAX_WAITING": "100000"}
    with (
        running(start_gateway(folder, environ)) as gateway,
        httpx.Client(base_url=gateway.url, timeout=120) as http,
    ):
        yield Bench(http)


def rows(bench: Bench, judged: Path, model: str, names: Sequence[str]) -> Iterator[tuple[str, str, Evaluation]]:
    """The quality on each set, by how passages are found.

    Yields:
        The name of the set, the retrieval, and the quality.
    """
    bases: dict[str, str] = {}
    for name in names:
        documents_file, questions_file = SETS[name]
        if documents_file not in bases:
            # Two abstracts of Cranfield are empty.
            documents = [each for each in read_set(judged, documents_file).docs if each.text.strip()]
            bases[documents_file] = bench.base(f"{documents_file} {model}", embeddingParameters={"model": model})
            seconds = bench.ingest(bases[documents_file], documents)
            print(f"{len(documents)} documents of {documents_file} in {seconds:.0f} s", flush=True)
        given = read_set(judged, questions_file)
        questions = [
            Question(text=each.text, id=each.id, relevant=relevant)
            for each in given.queries
            if (relevant := {id: grade for id, grade in given.qrels.get(each.id, {}).items() if grade > 0})
        ]
        earlier = {each.id: each.earlier for each in given.queries} if name == CONVERSATIONS else {}
        for retrieval in RETRIEVALS:
            bench.change(bases[documents_file], retrieval=retrieval)
            yield name, retrieval, bench.evaluated(bases[documents_file], questions, earlier)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("judged", type=Path, help="the folder of the sets")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    given = parser.parse_args()
    found: dict[tuple[str, str, str], Evaluation] = {}
    for model in given.models:
        with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as bench:
            for name, retrieval, evaluation in rows(bench, given.judged, model, given.sets):
                found[name, model, retrieval] = evaluation
                print(f"{name}, {model}, {retrieval}: nDCG@10 {evaluation.ndcg(10):.3f}", flush=True)
    columns = [("keyword", given.models[0]), *((how, model) for model in given.models for how in RETRIEVALS[1:])]
    print("\n| nDCG@10, recall@5 | " + " | ".join(f"{model}, {how}" for how, model in columns) + " |")
    print("| --- " * (len(columns) + 1) + "|")
    for name in given.sets:
        cells = [found[name, model, how] for how, model in columns]
        print(f"| {name} | " + " | ".join(f"{each.ndcg(10):.3f}, {each.recall(5):.3f}" for each in cells) + " |")


if __name__ == "__main__":
    main()
