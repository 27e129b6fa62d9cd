"""The commands `ragstore-gateway kb source`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient, FileDocument, SourceRun
from ragstore_gateway.commands.ingest import FAILED
from ragstore_gateway.commands.kb.json_values import fields_of, json_option, print_json, set_option
from ragstore_gateway.commands.running import find_base, run, url_option
from ragstore_gateway.configurations.source import WebSource

COMPLETED = "completed"


@click.group()
def source() -> None:
    """Sources of a knowledge base: websites and sets of files that it follows."""


@source.command("list")
@click.argument("name")
@json_option
@url_option
def list_sources(name: str, as_json: bool, url: str) -> None:
    """List the sources of a knowledge base, each with its last run."""

    async def work(gateway: AsyncGatewayClient) -> None:
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

    run(url, work)


@source.command()
@click.argument("name")
@click.argument("source")
@click.argument("start_url", required=False, default="")
@click.option("--cron", default="", help="When it runs by itself: five fields, such as '0 3 * * *'.")
@set_option
@url_option
def add(name: str, source: str, start_url: str, cron: str, fields: tuple[str, ...], url: str) -> None:
    """Add a source to a knowledge base, or replace its source of this name.

    With START_URL it is a website, whose fields --set sets, such as maxPages=200. Without, it is a set of uploaded
    files.
    """
    if fields and not start_url:
        raise click.UsageError("--set sets fields of a website: give its START_URL, too")
    added: dict[str, Any] = {"name": source, "type": "web" if start_url else "upload", "cron": cron}
    if start_url:
        added["web"] = {"startUrl": start_url, **fields_of(fields, WebSource)}

    async def work(gateway: AsyncGatewayClient) -> None:
        base = await find_base(gateway, name)
        others = [each for each in base.fields.get("sources", []) if each["name"] != source]
        stored = await gateway.bases.update(base, {"sources": [*others, added]})
        click.echo(f"{source}: {'replaced' if len(others) < len(base.fields.get('sources', [])) else 'added'}")
        click.echo(f"{stored.fields['name']}: version {stored.version}")

    run(url, work)


@source.command()
@click.argument("name")
@click.argument("source")
@click.option("--keep-documents", is_flag=True, help="Leave the documents of the source in the base.")
@url_option
def remove(name: str, source: str, keep_documents: bool, url: str) -> None:
    """Remove a source from a knowledge base, with its documents."""

    async def work(gateway: AsyncGatewayClient) -> None:
        base = await find_base(gateway, name)
        others = [each for each in base.fields.get("sources", []) if each["name"] != source]
        if len(others) == len(base.fields.get("sources", [])):
            raise click.ClickException(f"{name} has no source '{source}': `ragstore-gateway kb source list {name}`")
        if not keep_documents:
            await gateway.purge_source(base, source)
        await gateway.bases.update(base, {"sources": others})
        click.echo(f"{source}: removed")

    run(url, work)


@source.command("run")
@click.argument("name")
@click.argument("source")
@json_option
@url_option
def run_(name: str, source: str, as_json: bool, url: str) -> None:
    """Read a source, ingest what has changed, and wait until the run has ended.

    Ctrl-C ends the command, and not the run.
    """

    async def work(gateway: AsyncGatewayClient) -> SourceRun:
        return await gateway.run_source(await find_base(gateway, name), source)

    ended = run(url, work)
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
@url_option
def upload(name: str, source: str, files: tuple[Path, ...], url: str) -> None:
    """Store FILES in a source of uploaded files. The next run ingests them."""

    async def work(gateway: AsyncGatewayClient) -> None:
        base = await find_base(gateway, name)
        for path in files:
            stored = await gateway.upload_file(base, source, FileDocument(path))
            click.echo(f"{stored.name}: {stored.bytes} bytes")

    run(url, work)
