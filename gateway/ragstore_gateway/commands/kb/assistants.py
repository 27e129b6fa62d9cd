"""The commands `ragstore-gateway kb assistant`."""

from __future__ import annotations

from typing import IO, Any

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient
from ragstore_gateway.commands.kb.json_values import (
    configuration_of,
    fields_of,
    json_option,
    print_descriptor,
    set_option,
)
from ragstore_gateway.commands.running import find_assistant, run, url_option
from ragstore_gateway.configurations.assistant import Assistant


@click.group()
def assistant() -> None:
    """Assistants: models rag/NAME of the chat API, with passages of knowledge bases in their prompts."""


@assistant.command("list")
@click.option("--filter", "part", default="", help="Part of a name or of a description.")
@json_option
@url_option
def list_assistants(part: str, as_json: bool, url: str) -> None:
    """List the assistants, newest first."""

    async def work(gateway: AsyncGatewayClient) -> None:
        async for found in gateway.assistants.iter(part):
            print_descriptor(found, f"rag/{found.name}", as_json=as_json)

    run(url, work)


@assistant.command()
@click.argument("name")
@click.option("--version", type=click.IntRange(1), default=None, help="A version; the current one by default.")
@url_option
def show(name: str, version: int | None, url: str) -> None:
    """Print the configuration of an assistant as JSON."""

    async def work(gateway: AsyncGatewayClient) -> None:
        found = await find_assistant(gateway, name, version)
        click.echo(msgspec.json.format(msgspec.json.encode(found.fields)).decode())

    run(url, work)


@assistant.command()
@click.argument("name", required=False, default="")
@click.option("--base", "bases", multiple=True, help="A knowledge base that it searches; may be repeated.")
@click.option("--model", default="", help="The upstream's model; that of the gateway's settings by default.")
@click.option("--system-message", default="", help="The system message of its chats.")
@click.option("--config", type=click.File("rb"), help="A JSON file with the configuration; - for standard input.")
@set_option
@url_option
def create(
    name: str,
    bases: tuple[str, ...],
    model: str,
    system_message: str,
    config: IO[bytes] | None,
    fields: tuple[str, ...],
    url: str,
) -> None:
    """Create an assistant, which searches all of its bases unless its configuration has tasks."""
    given: dict[str, Any] = {"name": name, "model": model, "systemMessage": system_message, "workflow": [*bases]}
    configuration = configuration_of(config.read() if config else b"{}")
    configuration |= {field: value for field, value in given.items() if value} | fields_of(fields, Assistant)
    if not configuration.get("name"):
        raise click.UsageError("give a NAME, or a configuration that has one")
    if configuration.get("workflow") and "tasks" not in configuration:
        configuration["tasks"] = [{"enableWorkflowRag": True}]

    async def work(gateway: AsyncGatewayClient) -> None:
        created = await gateway.assistants.create(configuration)
        click.echo(f"rag/{created.fields['name']}: created as {created.id}")

    run(url, work)


@assistant.command()
@click.argument("name")
@click.option("--config", type=click.File("rb"), help="A JSON file with the fields; - for standard input.")
@set_option
@url_option
def change(name: str, config: IO[bytes] | None, fields: tuple[str, ...], url: str) -> None:
    """Write a new version of an assistant. Fields that are not given stay."""
    changes = configuration_of(config.read() if config else b"{}") | fields_of(fields, Assistant)
    if not changes:
        raise click.UsageError("give --set FIELD=VALUE, or --config FILE")

    async def work(gateway: AsyncGatewayClient) -> None:
        changed = await gateway.assistants.update(await find_assistant(gateway, name), changes)
        click.echo(f"rag/{changed.fields['name']}: version {changed.version}")

    run(url, work)


@assistant.command()
@click.argument("name")
@click.option("--permanent", is_flag=True, help="Remove all versions.")
@url_option
def delete(name: str, permanent: bool, url: str) -> None:
    """Mark an assistant as deleted, or remove it. Its knowledge bases stay."""

    async def work(gateway: AsyncGatewayClient) -> None:
        found = await find_assistant(gateway, name)
        await gateway.assistants.delete(found, permanent=permanent)
        click.echo(f"rag/{found.fields['name']}: {'removed' if permanent else 'deleted'}")

    run(url, work)
