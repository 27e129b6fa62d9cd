"""The commands `ragstore-gateway kb source`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient, FileDocument
from ragstore_gateway.commands.ingest import FAILED
from ragstore_gateway.commands.kb.json_values import fields_of, json_option, print_json, set_option
from ragstore_gateway.commands.running import find_base, on_gateway
from ragstore_gateway.configurations.source import WebSource

COMPLETED = "completed"


@click.group()
def source() -> None:
    """Sources of a knowledge base: websites and sets of files that it follows."""


@source.command("list")
@click.argument("name")
@json_option
@on_gateway
async def list_sources(gateway: AsyncGatewayClient, name: str, as_json: bool) -> None:
    """List the sources of a knowledge base, each with its last run."""
    base = await find_base(gateway, name)
    for each in base.fields.get("sources", []):
        last = await anext(gateway.iter_runs(base, each["name"], page_size=1), None)
        if as_json:
            print_json({**each, "lastRun": None if last is None else msgspec.to_builtins(last)})
        else:
            place = (each.get("web") or {}).get("startUrl", "")
            state = "never run" if last is None else f"{last.status} {last.finished_on or last.started_on}"
            parts = (each["name"], each["type"], place, each.get("cron", ""), state)
            click.echo("\t".join(part for part in parts if part))


@source.command()
@click.argument("name")
@click.argument("source")
@click.argument("start_url", required=False, default="")
@click.option("--cron", default="", help="When it runs by itself: five fields, such as '0 3 * * *'.")
@set_option
@on_gateway
async def add(
    gateway: AsyncGatewayClient, name: str, source: str, start_url: str, cron: str, fields: tuple[str, ...]
) -> None:
    """Add a source to a knowledge base, or replace its source of this name.

    With START_URL it is a website, whose fields --set sets, such as maxPages=200. Without, it is a set of uploaded
    files.
    """
    if fields and not start_url:
        raise click.UsageError("--set sets fields of a website: give its START_URL, too")
    added: dict[str, Any] = {"name": source, "type": "web" if start_url else "upload", "cron": cron}
    if start_url:
        added["web"] = {"startUrl": start_url, **fields_of(fields, WebSource)}
    base = await find_base(gateway, name)
    others = [each for each in base.fields.get("sources", []) if each["name"] != source]
    stored = await gateway.bases.update(base, {"sources": [*others, added]})
    click.echo(f"{source}: {'replaced' if len(others) < len(base.fields.get('sources', [])) else 'added'}")
    click.echo(f"{stored.fields['name']}: version {stored.version}")


@source.command()
@click.argument("name")
@click.argument("source")
@click.option("--keep-documents", is_flag=True, help="Leave the documents of the source in the base.")
@on_gateway
async def remove(gateway: AsyncGatewayClient, name: str, source: str, keep_documents: bool) -> None:
    """Remove a source from a knowledge base, with its documents."""
    base = await find_base(gateway, name)
    others = [each for each in base.fields.get("sources", []) if each["name"] != source]
    if len(others) == len(base.fields.get("sources", [])):
        raise click.ClickException(f"{name} has no source '{source}': `ragstore-gateway kb source list {name}`")
    if not keep_documents:
        await gateway.purge_source(base, source)
    await gateway.bases.update(base, {"sources": others})
    click.echo(f"{source}: removed")


@source.command("run")
@click.argument("name")
@click.argument("source")
@json_option
@on_gateway
async def run_(gateway: AsyncGatewayClient, name: str, source: str, as_json: bool) -> None:
    """Read a source, ingest what has changed, and wait until the run has ended.

    Ctrl-C ends the command, and not the run.
    """
    ended = await gateway.run_source(await find_base(gateway, name), source)
    if as_json:
        print_json(ended)
    else:
        reason = f" ({ended.reason})" if ended.reason else ""
        counts = ("added", "changed", "unchanged", "removed", "missing", "failed", "skipped")
        numbers = ", ".join(f"{count} {each}" for each in counts if (count := getattr(ended, each)))
        click.echo(f"{source}: {ended.status}{reason}: {numbers or 'nothing found'}")
    if ended.status != COMPLETED or ended.failed:
        raise click.exceptions.Exit(FAILED)


@source.command()
@click.argument("name")
@click.argument("source")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@on_gateway
async def upload(gateway: AsyncGatewayClient, name: str, source: str, files: tuple[Path, ...]) -> None:
    """Store FILES in a source of uploaded files. The next run ingests them."""
    base = await find_base(gateway, name)
    for path in files:
        stored = await gateway.upload_file(base, source, FileDocument(path))
        click.echo(f"{stored.name}: {stored.bytes} bytes")
