"""Options of `ragstore-gateway kb` whose values are JSON, and its output as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
import msgspec

from ragstore_client.gateway import Descriptor

Command = TypeVar("Command", bound=Callable[..., None])


def json_option(command: Command) -> Command:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")(command)


def set_option(command: Command) -> Command:
    """Add `--set`."""
    text = "A field, such as chunkStrategy=layers. Its value is JSON, or else text."
    return click.option("--set", "fields", multiple=True, metavar="FIELD=VALUE", help=text)(command)


def print_json(value: object) -> None:
    """Print a line of JSON."""
    click.echo(msgspec.json.encode(value).decode())


def print_descriptor(found: Descriptor, shown: str, *, as_json: bool) -> None:
    """Print a configuration of a list.

    Args:
        shown: its name for people.
    """
    if as_json:
        print_json({"id": found.id, "name": found.name, "version": found.version, "description": found.description})
    else:
        click.echo(f"{shown}\t{found.id}\tversion {found.version}\t{found.description}".rstrip())


def configuration_of(content: bytes | str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        click.UsageError: it is none.
    """
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"this is not a JSON object: {error}") from None


def fields_of(given: Iterable[str], struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The values of `--set`.

    Args:
        given: the values, as `FIELD=VALUE`.
        struct: has the fields.

    Raises:
        click.UsageError: it has no such field.
    """
    known = {each.encode_name: each.type for each in msgspec.structs.fields(struct)}
    return dict(_field(field, known) for field in given)


def _field(field: str, known: Iterable[str]) -> tuple[str, Any]:
    name, separator, value = field.partition("=")
    if not separator or name not in known:
        raise click.UsageError(f"--set needs FIELD=VALUE, with one of the fields {', '.join(known)}")
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return name, value
