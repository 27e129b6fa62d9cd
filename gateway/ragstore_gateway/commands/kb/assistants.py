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
from ragstore_gateway.commands.running import find_assistant, on_gateway
from ragstore_gateway.configurations.assistant import Assistant


@click.group()
def assistant() -> None:
    """Assistants: models rag/NAME of the chat API, with passages of knowledge bases in their prompts."""


@assistant.command("list")
@click.option("--filter", "part", default="", help="Part of a name or of a description.")
@json_option
@on_gateway
async def list_assistants(gateway: AsyncGatewayClient, part: str, as_json: bool) -> None:
    """List the assistants, newest first."""
    async for found in gateway.assistants.iter(part):
        print_descriptor(found, f"rag/{found.name}", as_json=as_json)


@assistant.command()
@click.argument("name")
@click.option("--version", type=click.IntRange(1), default=None, help="A version; the current one by default.")
@on_gateway
async def show(gateway: AsyncGatewayClient, name: str, version: int | None) -> None:
    """Print the configuration of an assistant as JSON."""
    found = await find_assistant(gateway, name, version)
    click.echo(msgspec.json.format(msgspec.json.encode(found.fields)).decode())


@assistant.command()
@click.argument("name", required=False, default="")
@click.option("--base", "bases", multiple=True, help="A knowledge base that it searches; may be repeated.")
@click.option("--model", default="", help="The upstream's model; that of the gateway's settings by default.")
@click.option("--system-message", default="", help="The system message of its chats.")
@click.option("--config", type=click.File("rb"), help="A JSON file with the configuration; - for standard input.")
@set_option
@on_gateway
async def create(
    gateway: AsyncGatewayClient,
    name: str,
    bases: tuple[str, ...],
    model: str,
    system_message: str,
    config: IO[bytes] | None,
    fields: tuple[str, ...],
) -> None:
    """Create an assistant, which searches all of its bases unless its configuration has tasks."""
    given: dict[str, Any] = {"name": name, "model": model, "systemMessage": system_message, "workflow": [*bases]}
    configuration = configuration_of(config.read() if config else b"{}")
    configuration |= {field: value for field, value in given.items() if value} | fields_of(fields, Assistant)
    if not configuration.get("name"):
        raise click.UsageError("give a NAME, or a configuration that has one")
    if configuration.get("workflow") and "tasks" not in configuration:
        configuration["tasks"] = [{"enableWorkflowRag": True}]
    created = await gateway.assistants.create(configuration)
    click.echo(f"rag/{created.fields['name']}: created as {created.id}")


@assistant.command()
@click.argument("name")
@click.option("--config", type=click.File("rb"), help="A JSON file with the fields; - for standard input.")
@set_option
@on_gateway
async def change(gateway: AsyncGatewayClient, name: str, config: IO[bytes] | None, fields: tuple[str, ...]) -> None:
    """Write a new version of an assistant. Fields that are not given stay."""
    changes = configuration_of(config.read() if config else b"{}") | fields_of(fields, Assistant)
    if not changes:
        raise click.UsageError("give --set FIELD=VALUE, or --config FILE")
    changed = await gateway.assistants.update(await find_assistant(gateway, name), changes)
    click.echo(f"rag/{changed.fields['name']}: version {changed.version}")


@assistant.command()
@click.argument("name")
@click.option("--permanent", is_flag=True, help="Remove all versions.")
@on_gateway
async def delete(gateway: AsyncGatewayClient, name: str, permanent: bool) -> None:
    """Mark an assistant as deleted, or remove it. Its knowledge bases stay."""
    found = await find_assistant(gateway, name)
    await gateway.assistants.delete(found, permanent=permanent)
    click.echo(f"rag/{found.fields['name']}: {'removed' if permanent else 'deleted'}")
