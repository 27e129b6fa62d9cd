"""Evaluate the search of a collection over a file of questions.

    python -m ragstore_client.evaluate questions.jsonl --collection manuals

Each line of the file is a JSON object with `text` and `relevant`, the ids of the relevant passages (or
their gains by id), and `embedding`, unless `--embeddings-url` names an endpoint. `--match FIELD=MEMBER` replaces
`relevant`: the passages whose metadata FIELD has the value of the line's MEMBER are relevant.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ragstore_client._async.client import AsyncClient
from ragstore_client._endpoint import DEFAULT_URL
from ragstore_client._exceptions import InvalidInput, RagstoreError
from ragstore_client._models import Base64, Embedding, Scalar, Where
from ragstore_client.context._client_source import ClientSource, Embed
from ragstore_client.evaluation import CUTOFFS, Evaluation, Question, evaluate, read_questions, search
from ragstore_client.rag._config import DEFAULT_EMBEDDING_MODEL
from ragstore_client.rag._embedder import EmbeddingsClient


class Options(msgspec.Struct, frozen=True):
    """The evaluation that a command line describes.

    Attributes:
        file: the file of questions.
        where: a filter on metadata.
        match: a metadata field, and the member of a line with its value; None where lines have `relevant`.
        embeddings_url: URL of the embeddings endpoint; None where lines have `embedding`.
        model: the model of the endpoint.
        cutoffs: numbers of passages to consider.
    """

    file: Path
    collection: str
    where: dict[str, object] | None = None
    match: tuple[str, str] | None = None
    embeddings_url: str | None = None
    model: str = DEFAULT_EMBEDDING_MODEL
    cutoffs: tuple[int, ...] = CUTOFFS


async def run(client: AsyncClient, options: Options) -> Evaluation:
    """Evaluate a collection.

    Args:
        client: a client of the service.
        options: what to evaluate.

    Returns:
        The figures.

    Raises:
        RagstoreError: a question cannot be used, or searching failed.
    """
    questions = read_questions(options.file)
    where: Where | None = options.where or None  # type: ignore[assignment]  # JSON from a command line
    if options.match:
        questions = await _with_relevant(client, options, questions, where)
    source = ClientSource(client, _embed(options, questions), collections=[options.collection])
    rankings = await search(source, questions, top_k=max(options.cutoffs), where=where)
    return evaluate(questions, rankings, cutoffs=options.cutoffs)


async def _with_relevant(
    client: AsyncClient, options: Options, questions: Sequence[Question], where: Where | None
) -> list[Question]:
    """The questions with the ids of the passages whose metadata matches."""
    field, member = options.match or ("", "")
    lines = [line for line in options.file.read_bytes().split(b"\n") if line.strip()]  # as `read_questions` has them
    found: list[Question] = []
    for question, line in zip(questions, lines, strict=True):
        value = msgspec.json.decode(line, type=dict[str, object]).get(member)
        if not isinstance(value, Scalar):
            raise InvalidInput(f"question {question.id!r} has no value {member!r}")
        clause: Where = {field: value}
        both: Where = {"$and": [clause, where]} if where else clause
        ids = [document.id async for document in client.iter_documents(options.collection, where=both)]
        found.append(msgspec.structs.replace(question, relevant=ids))
    return found


def _embed(options: Options, questions: Sequence[Question]) -> Embed:
    if options.embeddings_url:
        return functools.partial(EmbeddingsClient(options.embeddings_url).embed, model=options.model)
    vectors = {question.text: question.embedding for question in questions}

    async def embed(text: str) -> Embedding:
        vector = vectors[text]
        if vector is None:
            raise InvalidInput("a question has no embedding: name an endpoint with --embeddings-url")
        return Base64(vector) if isinstance(vector, str) else vector

    return embed


def parse(arguments: Sequence[str] | None = None) -> tuple[str, str | None, Options]:
    """Parse a command line.

    Returns:
        The service's URL, the key, and what to evaluate.
    """
    summary = "Evaluate the search of a collection over a file of questions."
    parser = argparse.ArgumentParser(prog="python -m ragstore_client.evaluate", description=summary)
    parser.add_argument("file", type=Path, help="JSON lines with questions")
    parser.add_argument("--collection", required=True, help="name of the collection")
    parser.add_argument("--url", default=os.environ.get("RAGSTORE_URL", DEFAULT_URL), help="URL of the service")
    parser.add_argument("--api-key", default=os.environ.get("RAGSTORE_API_KEY"), help="key for the service")
    parser.add_argument("--where", type=_filter, help="filter on metadata, as JSON")
    parser.add_argument("--match", metavar="FIELD=MEMBER", help="relevant: passages whose FIELD has that value")
    parser.add_argument("--embeddings-url", help="endpoint that embeds the questions; without it, lines have vectors")
    parser.add_argument("--model", default=DEFAULT_EMBEDDING_MODEL, help="model of that endpoint")
    parser.add_argument("--k", type=int, nargs="+", default=list(CUTOFFS), help="numbers of passages to consider")
    given = parser.parse_args(arguments)
    if given.match and "=" not in given.match:
        parser.error("--match needs FIELD=MEMBER")
    field, _, member = (given.match or "").partition("=")
    options = Options(
        file=given.file,
        collection=given.collection,
        where=given.where,
        match=(field, member) if given.match else None,
        embeddings_url=given.embeddings_url,
        model=given.model,
        cutoffs=tuple(given.k),
    )
    return given.url, given.api_key, options


def _filter(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise argparse.ArgumentTypeError("must be a JSON object") from None


async def main() -> None:
    """Print the table, or the error."""
    url, api_key, options = parse()
    try:
        async with AsyncClient(url, api_key=api_key) as client:
            evaluation = await run(client, options)
    except (RagstoreError, OSError) as error:
        sys.exit(f"ragstore_client.evaluate: {error}")
    sys.stdout.write(evaluation.table() + "\n")


if __name__ == "__main__":
    asyncio.run(main())
