"""`ragstore-gateway evaluate`: how well knowledge bases find the documents that questions are about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient
from ragstore_gateway.commands.running import find_base, run, url_option

CUTOFFS: Final = (1, 3, 5, 10)
PASSAGES: Final = 40
"""Number of passages of a search: enough for ten documents."""

CONCURRENCY: Final = 4
BELOW: Final = 1
"""Exit code if a figure is below its minimum."""


class JudgedQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a file.

    Attributes:
        text: the question.
        relevant: the names of the documents with the information, or their gains by name, such as 1 to 3.
        id: its id; the number of its line if the file has none.
        earlier: the earlier messages of the user, if it is a follow-up.
    """

    text: str
    relevant: list[str] | dict[str, float]
    id: str = ""
    earlier: list[str] = []


@click.command(short_help="Measure how well bases find the documents of questions.")
@click.argument("questions", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("bases", metavar="BASE...", nargs=-1, required=True)
@click.option("--min-ndcg", type=click.FloatRange(0, 1), default=0.0, help="Minimum nDCG@10 of the first base.")
@click.option("--min-recall", type=click.FloatRange(0, 1), default=0.0, help="Minimum recall@5 of the first base.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each base, with each question.")
@url_option
def evaluate(
    questions: Path, bases: tuple[str, ...], min_ndcg: float, min_recall: float, as_json: bool, url: str
) -> None:
    """Measure how well knowledge bases find the documents that QUESTIONS are about.

    QUESTIONS is a file of JSON lines, {"text": ..., "relevant": [DOCUMENT, ...], "earlier": [MESSAGE, ...]}, or of
    lines with a question, a tab, and the names of documents, separated by commas (.tsv). Several bases are compared.

    Exit code 1 if a figure of the first base is below its minimum, 2 for wrong usage.
    """
    # Only now: the client's evaluation needs no time at the start of other commands.
    from ragstore_client import InvalidInput
    from ragstore_client.evaluation import Question
    from ragstore_client.evaluation import evaluate as evaluated

    given = _read(questions)

    async def work(gateway: AsyncGatewayClient) -> list[list[list[str]]]:
        ids = [(await find_base(gateway, name)).id for name in bases]
        return [await _rankings(gateway, id, given) for id in ids]

    try:
        judged = [Question(text=each.text, id=each.id, relevant=each.relevant) for each in given]
        results = [evaluated(judged, rankings) for rankings in run(url, work)]
    except InvalidInput as error:
        raise click.UsageError(str(error)) from None
    for name, result in zip(bases, results, strict=True):
        if as_json:
            figures = {"base": name, "ndcg@10": result.ndcg(10), "recall@5": result.recall(5), "mrr": result.mrr}
            click.echo(msgspec.json.encode({**figures, "questions": result.results}).decode())
        else:
            click.echo(f"{name}: {result.table()}\n")
    if results[0].ndcg(10) < min_ndcg or results[0].recall(5) < min_recall:
        raise click.exceptions.Exit(BELOW)


async def _rankings(gateway: AsyncGatewayClient, id: str, questions: Sequence[JudgedQuestion]) -> list[list[str]]:
    """The names of the documents that a base finds for each question, the best one first."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def ranking(question: JudgedQuestion) -> list[str]:
        async with slots:
            passages = await gateway.search(id, question.text, max_results=PASSAGES, earlier=question.earlier)
        return [str(passage.metadata.get("document_name", "")) for passage in passages]

    return await asyncio.gather(*map(ranking, questions))


def _read(file: Path) -> list[JudgedQuestion]:
    """The questions of a file, each with an id.

    Raises:
        click.UsageError: a line is not a question; the message names the line.
    """
    found: list[JudgedQuestion] = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            question = _row(line.decode()) if file.suffix == ".tsv" else msgspec.json.decode(line, type=JudgedQuestion)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise click.UsageError(f"{file.name}, line {number}: {error}") from None
        found.append(question if question.id else msgspec.structs.replace(question, id=str(number)))
    return found


def _row(line: str) -> JudgedQuestion:
    text, tab, names = line.partition("\t")
    if not tab:
        raise ValueError("Must be a question, a tab, and names of documents")
    return JudgedQuestion(text, [name.strip() for name in names.split(",") if name.strip()])
