"""The command `ragstore-gateway ask`."""

from __future__ import annotations

import asyncio
import os
from typing import Final

import click

from ragstore_client import NotFound, RagstoreError
from ragstore_gateway.commands.gateway_connection import GatewayFailed
from ragstore_gateway.commands.remote import DEFAULT_URL, RemoteGateway
from ragstore_gateway.settings import URL_VARIABLE

MAX_EXCERPT: Final = 160
"""Characters of a source that are shown."""


@click.command()
@click.argument("question")
@click.option("--collection", default="memory", show_default=True, help="Collection to show the sources of.")
@click.option("--top-k", type=click.IntRange(1), default=5, show_default=True, help="Number of sources.")
@click.option("--model", default="", help="Model of the reply, such as rag/NAME; the first one by default.")
@click.option("--url", default="", help=f"The gateway; {URL_VARIABLE} by default, or {DEFAULT_URL}.")
def ask(question: str, collection: str, top_k: int, model: str, url: str) -> None:
    """Show the nearest sources of a QUESTION and, if the gateway has an upstream, a model's reply."""
    try:
        asyncio.run(_ask(url or os.environ.get(URL_VARIABLE, "") or DEFAULT_URL, question, collection, top_k, model))
    except NotFound:
        raise click.ClickException(
            f"There is no collection '{collection}'; create it with `ragstore-gateway ingest`"
        ) from None
    except (GatewayFailed, RagstoreError) as error:
        raise click.ClickException(str(error)) from None


async def _ask(url: str, question: str, collection: str, top_k: int, model: str) -> None:
    async with RemoteGateway(url) as gateway:
        vector = (await gateway.embed([question], "query"))[0]
        found = await gateway.store.query(collection, vector, top_k=top_k)
        for number, match in enumerate(found.results, 1):
            click.echo(f"[{number}] {match.score:.2f} {match.metadata.get('source', match.id)}: {_excerpt(match.text)}")
        if await gateway.can_chat():
            chosen = model or await gateway.rag_model()
            click.echo(f"\n{await gateway.chat(question, chosen)}")
        else:
            click.echo("\nNo reply: the gateway has no upstream (RAGSTORE_GATEWAY_UPSTREAM_URL is not set).")


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_EXCERPT else f"{line[:MAX_EXCERPT].rstrip()}..."
