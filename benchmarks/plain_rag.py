"""Measure what plain `rag/` models put into prompts: the share of the relevant passages among the sources.

    python -m benchmarks.plain_rag
    python -m benchmarks.plain_rag --sets FOLDER [faq-en ...] [--setting RAGSTORE_GATEWAY_RAG_DIVERSITY=0]

Each question is a chat through a gateway of its own, with the gateway's defaults, in front of a model server that
ignores its prompt. The help desk (`benchmarks/helpdesk`) has the vectors of MiniLM in its files, which a server of an
embedding model returns. Each file of the folder, `NAME.json.gz`, is a set
`{"docs": [{"id", "title", "text"}], "queries": [{"id", "text"}], "qrels": {QUERY: {DOC: GRADE}}}`; its documents are
stored whole, with vectors of the gateway's built-in model.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import msgspec
import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from ragstore_client import Client, NewDocument
from ragstore_client.evaluation import Question, evaluate
from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder
from tests.support.fake_providers import Received, fake_provider, json_response
from tests.support.fake_upstream import fake_upstream
from tests.support.gateways import start_gateway
from tests.support.pages import ROOT
from tests.support.servers import running

CUTOFF: Final = 5
CHATS: Final = 8
"""Number of concurrent chats."""


class _Document(msgspec.Struct):
    id: str
    text: str
    title: str = ""


class _Query(msgspec.Struct):
    id: str
    text: str


class _Set(msgspec.Struct):
    docs: list[_Document]
    queries: list[_Query]
    qrels: dict[str, dict[str, float]]


class _Passage(msgspec.Struct):
    id: str
    text: str
    embedding: str


class _Inputs(msgspec.Struct):
    inputs: list[str]


class _Chunk(msgspec.Struct):
    id: str


class _Debug(msgspec.Struct):
    chunks: list[_Chunk] = []


class _Reply(msgspec.Struct):
    rag: _Debug


@dataclass(frozen=True)
class Judged:
    """Documents and questions.

    Attributes:
        documents: the documents with their vectors.
        questions: the questions with what is relevant.
        vectors: vectors of the questions by text; None if the gateway's built-in model embeds them.
    """

    name: str
    documents: Sequence[NewDocument]
    questions: Sequence[Question]
    vectors: Mapping[str, list[float]] | None = None


def document(id: str, text: str, vector: NDArray[np.float32]) -> NewDocument:
    """A document with a URL of its own."""
    return NewDocument(id=id, text=text, embedding=vector.tolist(), metadata={"url": f"https://judged.example/{id}"})


def help_desk() -> Judged:
    """The help desk's English questions."""
    folder = ROOT / "benchmarks/helpdesk"

    def vector(given: object) -> NDArray[np.float32]:
        return np.frombuffer(base64.b64decode(str(given)), np.float32)

    passages = [msgspec.json.decode(line, type=_Passage) for line in (folder / "passages.jsonl").open()]
    lines = [line for line in (folder / "questions.jsonl").open() if '"language": "en"' in line]
    questions = [msgspec.json.decode(line, type=Question) for line in lines]
    return Judged(
        "helpdesk",
        [document(each.id, each.text, vector(each.embedding)) for each in passages],
        questions,
        {each.text: vector(each.embedding).tolist() for each in questions},
    )


def judged_set(path: Path) -> Judged:
    """A set of a folder."""
    given = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_Set)
    texts = [f"{each.title}\n{each.text}".strip() for each in given.docs]
    vectors = asyncio.run(WordLlamaEmbedder().embed(texts, "document"))
    return Judged(
        path.name.removesuffix(".json.gz"),
        [document(each.id, text, vector) for each, text, vector in zip(given.docs, texts, vectors, strict=True)],
        [
            Question(text=each.text, relevant={key: grade for key, grade in given.qrels[each.id].items() if grade > 0})
            for each in given.queries
            if any(grade > 0 for grade in given.qrels.get(each.id, {}).values())
        ],
    )


def store(url: str, documents: Sequence[NewDocument]) -> None:
    """Store documents in the collection that plain models search."""
    with Client(url, timeout=120) as client:
        client.create_collection("memory")
        client.ingest_all("memory", documents)


async def rankings(url: str, questions: Sequence[Question]) -> list[list[str]]:
    """The ids of the sources of each question, in the order of the prompt."""
    limit = asyncio.Semaphore(CHATS)
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:

        async def ask(question: Question) -> list[str]:
            body = {"model": "rag/m", "messages": [{"role": "user", "content": question.text}]}
            async with limit:
                response = await http.post("/v1/chat/completions", json=body)
            response.raise_for_status()
            return [each.id for each in msgspec.json.decode(response.content, type=_Reply).rag.chunks]

        return list(await asyncio.gather(*map(ask, questions)))


async def measure(judged: Judged, settings: Mapping[str, str]) -> str:
    """A row of the table."""

    async def embed(received: Received) -> web.StreamResponse:
        texts = msgspec.json.decode(received.body, type=_Inputs).inputs
        return json_response({"vectors": [(judged.vectors or {})[text] for text in texts]})

    async with AsyncExitStack() as stack:
        upstream = stack.enter_context(fake_upstream())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_RAG_DEBUG": "true",
            **settings,
        }
        if judged.vectors is not None:
            environ["EMBEDDER_BASE"] = (await stack.enter_async_context(fake_provider(embed))).url
        served = stack.enter_context(running(await asyncio.to_thread(start_gateway, folder, environ)))
        await asyncio.to_thread(store, served.url, judged.documents)
        found = evaluate(judged.questions, await rankings(served.url, judged.questions), cutoffs=(CUTOFF,))
    figures = " | ".join(f"{each:.3f}" for each in (found.recall(CUTOFF), found.ndcg(CUTOFF), found.mrr))
    return f"| {judged.name} | {len(judged.questions)} | {figures} |"


def main() -> None:
    """Measure the help desk, and the sets of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, help="folder of judged sets")
    parser.add_argument("--setting", action="append", default=[], help="a variable of the gateway, NAME=VALUE")
    parser.add_argument("names", nargs="*", help="names of sets; all of the folder by default")
    given = parser.parse_args()
    settings = dict(each.split("=", 1) for each in given.setting)
    paths = sorted(given.sets.glob("*.json.gz")) if given.sets else []
    chosen = [path for path in paths if not given.names or path.name.removesuffix(".json.gz") in given.names]
    print(f"| set | questions | recall@{CUTOFF} | nDCG@{CUTOFF} | MRR |\n| --- | --- | --- | --- | --- |")
    print(asyncio.run(measure(help_desk(), settings)), flush=True)
    for path in chosen:
        print(asyncio.run(measure(judged_set(path), settings)), flush=True)


if __name__ == "__main__":
    main()
