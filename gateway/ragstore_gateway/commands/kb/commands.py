"""The commands `ragstore-gateway kb`."""

from __future__ import annotations

from functools import partial
from typing import IO, Unpack

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient
from ragstore_gateway.commands.documents import STDIN
from ragstore_gateway.commands.ingest import FAILED, IngestionOptions, ingest_sources, ingestion_options
from ragstore_gateway.commands.ingestion import reporter
from ragstore_gateway.commands.kb.archive import BadArchive
from ragstore_gateway.commands.kb.assistants import assistant
from ragstore_gateway.commands.kb.json_values import (
    configuration_of,
    fields_of,
    json_option,
    print_descriptor,
    print_json,
    set_option,
)
from ragstore_gateway.commands.kb.moves import in_engine, until_reindexed
from ragstore_gateway.commands.kb.sources import source
from ragstore_gateway.commands.kb.transfer import export_base, import_base, readable
from ragstore_gateway.commands.running import find_base, on_gateway, run, url_option
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.settings import KEY_VARIABLE


@click.group()
def kb() -> None:
    """Knowledge bases of a running gateway."""


kb.help = f"""Knowledge bases of a running gateway.

NAME is the name of a knowledge base, or its id. The key is that of {KEY_VARIABLE}.

Exit code 1 if something failed, 2 for wrong usage.
"""


@kb.command("list")
@click.option("--filter", "part", default="", help="Part of a name or of a description.")
@json_option
@on_gateway
async def list_bases(gateway: AsyncGatewayClient, part: str, as_json: bool) -> None:
    """List the knowledge bases, newest first."""
    async for found in gateway.bases.iter(part):
        print_descriptor(found, found.name, as_json=as_json)


@kb.command()
@click.argument("name")
@click.option("--version", type=click.IntRange(1), default=None, help="A version; the current one by default.")
@click.option("--documents", "with_documents", is_flag=True, help="Print the documents, one a line.")
@on_gateway
async def show(gateway: AsyncGatewayClient, name: str, version: int | None, with_documents: bool) -> None:
    """Print the configuration of a knowledge base as JSON, or its documents."""
    base = await find_base(gateway, name, version)
    if not with_documents:
        click.echo(msgspec.json.format(msgspec.json.encode(base.fields)).decode())
        return
    async for document in gateway.iter_documents(base):
        click.echo(f"{document.name}\t{document.status}\t{document.chunks} chunks")


@kb.command()
@click.argument("name", required=False, default="")
@click.option("--config", type=click.File("rb"), help="A JSON file with the configuration; - for standard input.")
@set_option
@json_option
@on_gateway
async def create(
    gateway: AsyncGatewayClient, name: str, config: IO[bytes] | None, fields: tuple[str, ...], as_json: bool
) -> None:
    """Create a knowledge base."""
    configuration = configuration_of(config.read() if config else b"{}")
    configuration |= fields_of(fields, KnowledgeBase)
    if name:
        configuration["name"] = name
    if not configuration.get("name"):
        raise click.UsageError("give a NAME, or a configuration that has one")
    base = await gateway.bases.create(configuration)
    if as_json:
        print_json({"id": base.id, "name": base.fields["name"], "version": base.version})
    else:
        click.echo(f"{base.fields['name']}: created as {base.id}")


@kb.command()
@click.argument("name")
@click.option("--config", type=click.File("rb"), help="A JSON file with the fields; - for standard input.")
@set_option
@on_gateway
async def change(gateway: AsyncGatewayClient, name: str, config: IO[bytes] | None, fields: tuple[str, ...]) -> None:
    """Write a new version of a knowledge base. Fields that are not given stay."""
    changes = configuration_of(config.read() if config else b"{}") | fields_of(fields, KnowledgeBase)
    if not changes:
        raise click.UsageError("give --set FIELD=VALUE, or --config FILE")
    base = await gateway.bases.update(await find_base(gateway, name), changes)
    click.echo(f"{base.fields['name']}: version {base.version}")


@kb.command()
@click.argument("name")
@click.argument("engine")
@on_gateway
async def move(gateway: AsyncGatewayClient, name: str, engine: str) -> None:
    """Move a knowledge base to an ENGINE that the settings of the gateway name, and wait for the end.

    Chunks are copied, and not embedded again. Searches use the old engine until all are in the new one. An interruption
    does not end the move, and the same command waits for it.
    """
    base = await find_base(gateway, name)
    if base.fields.get("engine") != engine:
        base = await gateway.bases.update(base, in_engine(engine))
    await until_reindexed(gateway, base, lambda left: click.echo(f"{left} documents left", err=True))
    click.echo(f"{base.fields['name']}: in {engine}, version {base.version}")


@kb.command()
@click.argument("name")
@click.option("--permanent", is_flag=True, help="Remove all versions and all documents.")
@on_gateway
async def delete(gateway: AsyncGatewayClient, name: str, permanent: bool) -> None:
    """Mark a knowledge base as deleted, so that nothing finds it, or remove it."""
    base = await find_base(gateway, name)
    await gateway.bases.delete(base, permanent=permanent)
    click.echo(f"{base.fields['name']}: {'removed' if permanent else 'deleted'}")


kb.add_command(source)
kb.add_command(assistant)


@kb.command()
@click.argument("name")
@ingestion_options
def ingest(name: str, sources: tuple[str, ...], **options: Unpack[IngestionOptions]) -> None:
    """Ingest documents, and wait until they are searchable.

    A document of the same name is replaced. A document that fails does not end the others. An interruption does not
    cancel what the gateway has accepted, and the same command continues.
    """
    ingest_sources(name, sources, **options)


@kb.command()
@click.argument("name")
@click.argument("question")
@click.option("--max-results", type=click.IntRange(1, 1000), default=None, help="The base's own by default.")
@click.option("--min-score", type=click.FloatRange(0, 1), default=None, help="The base's own by default.")
@click.option("--where", default="", metavar="JSON", help="Filter by the metadata of chunks.")
@json_option
@on_gateway
async def query(
    gateway: AsyncGatewayClient,
    name: str,
    question: str,
    max_results: int | None,
    min_score: float | None,
    where: str,
    as_json: bool,
) -> None:
    """Print the passages nearest to a QUESTION, with their scores."""
    filter_ = configuration_of(where) if where else None
    base = await find_base(gateway, name)
    passages = await gateway.search(base, question, max_results=max_results, min_score=min_score, where=filter_)
    for number, passage in enumerate(passages, 1):
        if as_json:
            print_json(msgspec.to_builtins(passage))
        else:
            click.echo(f"[{number}] {passage.score:.3f} {passage.source}\n{passage.text}\n")
    if not passages and not as_json:
        click.echo("No passage was found.", err=True)


@kb.command("export")
@click.argument("name")
@click.argument("file", metavar="FILE|-")
@on_gateway
async def export_(gateway: AsyncGatewayClient, name: str, file: str) -> None:
    """Write the configuration and the documents' texts of a knowledge base to FILE.

    The file has JSON lines. Documents that are not searchable have no text, and are named on standard error.
    """
    exported, left_out = await export_base(gateway, await find_base(gateway, name), file)
    for document in left_out:
        click.echo(f"{document}: not exported: it is not searchable", err=True)
    click.echo(f"{exported} documents exported", err=file == STDIN)
    _end(len(left_out))


@kb.command("import")
@click.argument("file", metavar="FILE|-")
@click.option("--name", default="", help="Name of the new knowledge base; that of the archive by default.")
@json_option
@url_option
def import_(file: str, name: str, as_json: bool, url: str) -> None:
    """Create a knowledge base from an archive that `export` wrote, and ingest its documents."""
    try:
        with readable(file) as content:
            work = partial(
                import_base, file=content, name=name, report=reporter(as_json=as_json), shows_progress=not as_json
            )
            failed = run(url, work)
    except BadArchive as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or type(error).__name__}") from None
    _end(failed)


def _end(failed: int) -> None:
    if failed:
        raise click.exceptions.Exit(FAILED)
