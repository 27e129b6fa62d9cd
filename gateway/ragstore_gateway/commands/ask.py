"""The command `ragstore-gateway ask`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from ragstore_client.gateway import AsyncGatewayClient, KnowledgeBaseHit
from ragstore_gateway.chat.body import RAG_PREFIX
from ragstore_gateway.commands.chat_responses import Completion, Message, Models
from ragstore_gateway.commands.ingest import MEMORY
from ragstore_gateway.commands.replaced_options import CommandWithReplacements
from ragstore_gateway.commands.running import find_base, on_gateway
from ragstore_gateway.settings import variable

MAX_EXCERPT: Final = 160
"""Characters of a passage that are shown."""


@click.command(
    cls=CommandWithReplacements,
    replacements={"--collection": "use --base NAME for a knowledge base of another name"},
    short_help="Show the passages for a QUESTION, and a model's reply.",
)
@click.argument("question")
@click.option("--base", "bases", multiple=True, metavar="NAME", help="Knowledge base to search; 'memory' by default.")
@click.option("--top-k", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of passages.")
@click.option("--model", default="", help="Model of the reply; the upstream's first one by default.")
@on_gateway
async def ask(gateway: AsyncGatewayClient, question: str, bases: tuple[str, ...], top_k: int, model: str) -> None:
    """Show the nearest passages for a QUESTION and, if the gateway has an upstream, a model's reply from them.

    The model gets the passages that are shown, with their numbers. A model `rag/NAME` searches by itself: its reply is
    shown with the sources that it cites.
    """
    if not model.startswith(RAG_PREFIX):
        await _ask(gateway, question, bases or (MEMORY,), top_k, model)
    elif bases:
        raise click.UsageError(f"{model} searches knowledge bases of its own: leave out --base or --model")
    else:
        await _ask_assistant(gateway, question, model)


async def _ask(gateway: AsyncGatewayClient, question: str, bases: Sequence[str], top_k: int, model: str) -> None:
    passages = await _nearest(gateway, question, bases, top_k)
    for number, passage in enumerate(passages, 1):
        click.echo(f"[{number}] {passage.score:.2f} {passage.source or passage.id}: {_excerpt(passage.text)}")
    if not passages:
        click.echo("No passage was found: `ragstore-gateway kb ingest NAME FILE...` adds documents to a base", err=True)
    elif not (await gateway.access()).chat:
        click.echo(f"\nNo reply: the gateway has no upstream ({variable('upstream_url')} is not set).")
    else:
        reply = await _chat(gateway, _messages(question, passages), model or await _first_model(gateway))
        click.echo(f"\n{reply.content or ''}")


async def _ask_assistant(gateway: AsyncGatewayClient, question: str, model: str) -> None:
    reply = await _chat(gateway, [{"role": "user", "content": question}], model)
    click.echo(reply.content or "")
    if reply.citations:
        click.echo()
    for marker, title in reply.citations:
        click.echo(f"{marker} {title}")


async def _nearest(
    gateway: AsyncGatewayClient, question: str, bases: Sequence[str], top_k: int
) -> list[KnowledgeBaseHit]:
    """The passages of all bases, the best ones first."""
    found: list[KnowledgeBaseHit] = []
    for name in dict.fromkeys(bases):
        found += await gateway.search(await find_base(gateway, name), question, max_results=top_k)
    return sorted(found, key=lambda passage: -passage.score)[:top_k]


def _messages(question: str, passages: Sequence[KnowledgeBaseHit]) -> list[dict[str, object]]:
    """The messages for a model: the question, with the passages as numbered sources."""
    # Only now: other commands need no prompt.
    from ragstore_client.context import ContextPassage, Numbered

    sources = [
        ContextPassage(
            id=passage.id,
            text=passage.text,
            metadata=dict(passage.metadata),
            citation=passage.source or passage.id,
            number=number,
            tokens=0,
        )
        for number, passage in enumerate(passages, 1)
    ]
    return Numbered().messages(question, sources)


async def _chat(gateway: AsyncGatewayClient, messages: Sequence[dict[str, object]], model: str) -> Message:
    """The reply of a model to a conversation, as OpenAI's API has it."""
    body = {"model": model, "messages": messages}
    completion = await gateway.request("POST", "/v1/chat/completions", Completion, body=body)
    return completion.choices[0].message


async def _first_model(gateway: AsyncGatewayClient) -> str:
    """The upstream's first model.

    Raises:
        click.ClickException: it has none.
    """
    models = await gateway.request("GET", "/v1/models", Models)
    names = (each.id for each in models.data if not each.id.startswith(RAG_PREFIX) and "*" not in each.id)
    found = next(names, "")
    if not found:
        raise click.ClickException("The upstream lists no model: name one with --model")
    return found


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_EXCERPT else f"{line[:MAX_EXCERPT].rstrip()}..."
